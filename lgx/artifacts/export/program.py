"""Programs of networks: traced with a dynamic batch, compared with the network, and written as ``.pt2`` files."""

import io
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from lgx.artifacts.export.about import pad_id
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.host.failures import foreign_errors
from lgx.host.files import atomic_path

Program = Callable[[Tensor], Tensor]
"""Inputs of any batch size -> logits."""

TOLERANCE = 1e-4
"""Largest difference of two logits; of logits above 1, relative to the largest one."""

_BATCHES = (1, 3)
"""Batch sizes of the comparison; the program was traced with another one."""

LARGEST_BATCH = 2**16
"""Most examples of a batch of an exported program."""

_ABOUT = "lgx.json"
"""The extra file of a ``.pt2`` file that describes the network."""


def trace(model: nn.Module, task: Task, place: str) -> ExportedProgram:
    """Trace a network.

    Args:
        model: The network, in eval mode.
        task: What it reads.
        place: The file that will hold the program, for the message.

    Returns:
        The program, images (B, C, H, W) or token ids (B, N) -> logits. B is dynamic, and N of texts.
    """
    sizes = {0: Dim("batch", min=1, max=LARGEST_BATCH)}
    is_text = task.kind == "text"
    if is_text:
        sizes[1] = Dim("length", min=1, max=task.max_len)
    inputs = random_inputs(task, 2)  # torch.export takes a size of 1 for a constant
    with foreign_errors(place, "torch.export cannot trace this network", "export a folder"), torch.no_grad():
        # Without `strict` the masks of transformers fix the batch.
        return torch.export.export(model, (inputs,), dynamic_shapes=(sizes,), strict=is_text)


def write_pt2(out: str | Path, model: nn.Module, task: Task, texts: Mapping[str, str]) -> float:
    """Write a network as a program that ``torch.export.load`` reads; lgx itself reads none, because it may run code.

    Args:
        out: The file.
        model: The network, in eval mode.
        task: What it reads.
        texts: What the file says of it, as the extra file ``lgx.json``.

    Returns:
        The largest difference between logits of the written program and of the network.
    """
    traced = trace(model, task, str(out))
    content = io.BytesIO()  # on a full disk torch's own writer would abort the process
    torch.export.save(traced, content, extra_files={_ABOUT: json.dumps(texts)})
    with atomic_path(out) as temporary:
        temporary.write_bytes(content.getbuffer())
        with temporary.open("rb") as file:
            written = torch.export.load(file).module()
        return check_parity(model, written, task, out)


def random_inputs(task: Task, batch: int, seed: int = 0) -> Tensor:
    """Random inputs: images (B, C, H, W) with normally distributed values, or token ids (B, N), the shorter padded."""
    generator = torch.Generator().manual_seed(seed)
    if task.kind != "text":
        return torch.randn(batch, *task.image_shape, generator=generator)
    longest = max(1, task.max_len - batch % 2)  # not always the length of the trace
    ids = torch.randint(0, task.vocab_size - 1, (batch, longest), generator=generator)
    lengths = torch.randint(1, longest + 1, (batch, 1), generator=generator)
    lengths[0] = longest
    return ids.masked_fill(torch.arange(longest) >= lengths, pad_id(task))


def check_parity(model: nn.Module, program: Program, task: Task, place: str | Path) -> float:
    """Refuse a program whose logits differ from the network's.

    Args:
        model: The network, in eval mode.
        program: The program, as it was read from its file.
        task: What the network reads.
        place: The file, for the message.

    Returns:
        The largest difference.
    """
    largest = 0.0
    for batch in _BATCHES:
        inputs = random_inputs(task, batch, seed=batch)
        with torch.no_grad(), foreign_errors(str(place), "the exported program does not run", "nothing was written"):
            expected, found = model(inputs), program(inputs)
        difference = float((found - expected).abs().max()) if found.shape == expected.shape else math.inf
        if not difference <= TOLERANCE * max(1.0, float(expected.abs().max())):  # NaN is refused
            raise UserError(
                f"{place}: logits of the exported program differ by {difference:.2g} from those of the network at "
                f"batch size {batch}, more than {TOLERANCE:g}; nothing was written"
            )
        largest = max(largest, difference)
    return largest
