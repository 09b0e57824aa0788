"""Trace a network as a program of torch.export with a dynamic batch."""

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from lgx.artifacts.export.about import About
from lgx.artifacts.export.parity import random_inputs
from lgx.host.failures import foreign_errors

LARGEST_BATCH = 2**16
"""Most examples of a batch of an exported program."""


def trace(model: nn.Module, about: About, place: str) -> ExportedProgram:
    """Trace a network.

    Args:
        model: The network, in eval mode.
        about: What it reads.
        place: The file that will hold the program, for the message.

    Returns:
        The program, inputs -> logits. The batch is dynamic, and the length of texts.

    Raises:
        UserError: If the network cannot be traced.
    """
    task = about.task
    sizes = {0: Dim("batch", min=1, max=LARGEST_BATCH)}
    is_text = task.kind == "text"
    if is_text:
        sizes[1] = Dim("length", min=1, max=task.max_len)
    inputs = random_inputs(about, 2)  # torch.export takes a size of 1 for a constant
    with foreign_errors(place, "torch.export cannot trace this network", "use --format timm"), torch.no_grad():
        # Without `strict` the masks of transformers fix the batch.
        return torch.export.export(model, (inputs,), dynamic_shapes=(sizes,), strict=is_text)
