"""The operations of a model's forward pass, recorded by ``torch.export``."""

import logging
import operator
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO

import torch
from torch import fx, nn

from lgx.errors import UserError


def record(model: nn.Module, image: tuple[int, int, int], name: str) -> torch.export.ExportedProgram:
    """Record a forward pass in eval mode, without computing it.

    Args:
        model: Takes images (B, C, H, W); on any device, ``meta`` included. It is not changed.
        image: (C, H, W) of its images.
        name: What messages call the model.

    Raises:
        UserError: If the forward pass depends on data or fails.
    """
    first = next(model.parameters(), None)
    example = torch.empty(1, *image, device=None if first is None else first.device)
    training = {module: module.training for module in model.modules()}
    try:
        with torch.enable_grad(), _silence():  # without gradients some layers take opaque fast paths
            program = torch.export.export(model.eval(), (example,), strict=False)
            if any(_writes_in_place(node) for node in program.graph.nodes):
                program = program.run_decompositions({})
    except Exception as error:  # whatever a model or the exporter raises means that it cannot be traced
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        reason = "what it does depends on the image's values" if "data-dependent" in lines[0] else lines[0][:200]
        raise UserError(f"{name}: cannot be traced at {'x'.join(map(str, image))}: {reason}") from error
    finally:
        for module, mode in training.items():
            module.training = mode
    return program


def _writes_in_place(node: fx.Node) -> bool:
    """Whether a call is there for what it writes into a view: then the graph's edges do not show where that goes."""
    return node.op == "call_function" and not node.users and node.target is not operator.getitem


@contextmanager
def _silence() -> Iterator[None]:
    """No log lines, warnings and listings of the exporter; what matters becomes an error."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
