"""Compare an exported program with the network that it was made from."""

import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from lgx.artifacts.export.about import About
from lgx.errors import UserError
from lgx.host.failures import foreign_errors

Program = Callable[[Tensor], Tensor]
"""Inputs of any batch size -> logits."""

TOLERANCE = 1e-4
"""Largest difference of two logits; of logits above 1, relative to the largest one."""

_BATCHES = (1, 3)
"""Batch sizes of the comparison; the program was traced with another one."""


def random_inputs(about: About, batch: int, seed: int = 0) -> Tensor:
    """Random inputs: images (B, C, H, W) with normally distributed values, or token ids (B, N), the shorter padded.

    Args:
        about: What the network reads.
        batch: Number of examples B.
        seed: Seed of the values.
    """
    generator, task = torch.Generator().manual_seed(seed), about.task
    if task.kind != "text":
        return torch.randn(batch, task.in_chans, task.img_size, task.img_size, generator=generator)
    longest = max(1, task.max_len - batch % 2)  # not always the length of the trace
    ids = torch.randint(0, task.vocab_size - 1, (batch, longest), generator=generator)
    lengths = torch.randint(1, longest + 1, (batch, 1), generator=generator)
    lengths[0] = longest
    return ids.masked_fill(torch.arange(longest) >= lengths, about.pad_id)


def check_parity(model: nn.Module, program: Program, about: About, place: str | Path) -> float:
    """Refuse a program whose logits differ from the network's.

    Args:
        model: The network, in eval mode.
        program: The program, as it was read from its file.
        about: What the network reads.
        place: The file, for the message.

    Returns:
        The largest difference.

    Raises:
        UserError: If the program does not run, or a logit differs by more than :data:`TOLERANCE`.
    """
    largest = 0.0
    for batch in _BATCHES:
        inputs = random_inputs(about, batch, seed=batch)
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
