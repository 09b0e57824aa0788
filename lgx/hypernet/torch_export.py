"""Records the operations of a model's forward pass with ``torch.export``."""

import logging
import operator
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO

import torch
from torch import fx, nn

from lgx.errors import UserError


def export_forward(model: nn.Module, image: tuple[int, int, int], name: str) -> torch.export.ExportedProgram:
    """Record a forward pass in eval mode, without computing it.

    Args:
        model: Takes images (B, C, H, W); it may be on any device, ``meta`` included. It is not changed.
        image: (C, H, W) of its images.
        name: The model's name for error messages.

    Returns:
        The recorded program for one image.

    Raises:
        UserError: If the forward pass fails or depends on the image's values.
    """
    first = next(model.parameters(), None)
    example = torch.empty(1, *image, device=None if first is None else first.device)
    training = {module: module.training for module in model.modules()}
    try:
        with torch.enable_grad(), _silence():  # without gradients some layers take opaque fast paths
            program = torch.export.export(model.eval(), (example,), strict=False)
            if any(_writes_in_place(node) for node in program.graph.nodes):
                program = program.run_decompositions({})
    except Exception as error:  # any error of the model or of the exporter means that the model cannot be traced
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        reason = "its operations depend on the image's values" if "data-dependent" in lines[0] else lines[0][:200]
        raise UserError(f"{name}: cannot be traced at {'x'.join(map(str, image))}: {reason}") from error
    finally:
        for module, mode in training.items():
            module.training = mode
    return program


def _writes_in_place(node: fx.Node) -> bool:
    """Whether a call only writes into a view of another tensor. The graph has no edge to readers of that tensor."""
    return node.op == "call_function" and not node.users and node.target is not operator.getitem


@contextmanager
def _silence() -> Iterator[None]:
    """Suppress the exporter's log lines, warnings and listings; a failure is raised as an error anyway."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
