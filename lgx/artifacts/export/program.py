"""Trace a network as a program of torch.export with a dynamic batch, and write it as a ``.pt2`` file."""

import io
import json
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from lgx.artifacts.export.about import About
from lgx.artifacts.export.parity import check_parity, random_inputs
from lgx.host.failures import foreign_errors
from lgx.host.files import atomic_path

LARGEST_BATCH = 2**16
"""Most examples of a batch of an exported program."""

_ABOUT = "lgx.json"
"""The extra file of a ``.pt2`` file that describes the network."""


def trace(model: nn.Module, about: About, place: str) -> ExportedProgram:
    """Trace a network.

    Args:
        model: The network, in eval mode.
        about: What it reads.
        place: The file that will hold the program, for the message.

    Returns:
        The program, images (B, C, H, W) or token ids (B, N) -> logits. B is dynamic, and N of texts.

    Raises:
        UserError: If the network cannot be traced.
    """
    task = about.task
    sizes = {0: Dim("batch", min=1, max=LARGEST_BATCH)}
    is_text = task.kind == "text"
    if is_text:
        sizes[1] = Dim("length", min=1, max=task.max_len)
    inputs = random_inputs(about, 2)  # torch.export takes a size of 1 for a constant
    with foreign_errors(place, "torch.export cannot trace this network", "export a folder"), torch.no_grad():
        # Without `strict` the masks of transformers fix the batch.
        return torch.export.export(model, (inputs,), dynamic_shapes=(sizes,), strict=is_text)


def write_pt2(out: str | Path, model: nn.Module, about: About) -> float:
    """Write a network as a program that ``torch.export.load`` reads; lgx itself reads none, because it may run code.

    Args:
        out: The file.
        model: The network, in eval mode.
        about: What the file says of it, as the extra file ``lgx.json``.

    Returns:
        The largest difference between logits of the written program and of the network.

    Raises:
        UserError: If the network cannot be traced, the program gives other logits, or the file cannot be written.
    """
    traced = trace(model, about, str(out))
    content = io.BytesIO()  # on a full disk torch's own writer would abort the process
    torch.export.save(traced, content, extra_files={_ABOUT: json.dumps(about.to_texts())})
    with atomic_path(out) as temporary:
        temporary.write_bytes(content.getbuffer())
        with temporary.open("rb") as file:
            written = torch.export.load(file).module()
        return check_parity(model, written, about, out)
