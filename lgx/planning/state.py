"""Sizes of the optimizer's state, checkpoints and the learngene."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lgx.errors import UserError
from lgx.methods.base import Method
from lgx.planning.cost import stored
from lgx.planning.networks import fake_tensors


def optimizer_bytes(method: Method) -> int | None:
    """Bytes of the optimizer's state, measured by one step on parameters without memory.

    Args:
        method: The method, with its network.

    Returns:
        None where the optimizer does not work on such parameters.

    Raises:
        UserError: If it refuses the parameters or its options.
    """

    def on_meta(parameter: Tensor) -> nn.Parameter:
        stand_in = nn.Parameter(torch.empty(parameter.shape, dtype=parameter.dtype, device="meta"))
        stand_in.grad = torch.empty_like(stand_in)
        return stand_in

    def fake(parameter: Tensor) -> nn.Parameter:
        stand_in = nn.Parameter(torch.empty(parameter.shape, dtype=parameter.dtype))
        stand_in.grad = torch.empty_like(stand_in)
        return stand_in

    try:
        return _state_after_a_step(method, on_meta)
    except (
        RuntimeError,
        NotImplementedError,
    ):  # fused optimizers have no kernel for meta tensors, but one for fake ones
        pass
    try:
        with fake_tensors():
            return _state_after_a_step(method, fake)
    except (RuntimeError, NotImplementedError):
        return None


def _state_after_a_step(method: Method, stand_in: Callable[[Tensor], nn.Parameter]) -> int:
    groups = method.trained_groups()
    for group in groups:
        group["params"] = [stand_in(parameter) for parameter in group["params"]]
    try:
        optimizer = method.optimizer(groups)
    except ValueError as error:
        raise UserError(f"model.optimizer: {' '.join(str(error).split())}") from error
    optimizer.step()
    values: list[Any] = [value for state in optimizer.state.values() for value in state.values()]
    return stored([value for value in values if isinstance(value, Tensor)])


def checkpoint_bytes(method: Method, optimizer: int) -> int:
    """Bytes of a checkpoint: the network and the optimizer's state."""
    return stored(list(method.network.state_dict().values())) + optimizer


def learngene_bytes(method: Method) -> int | None:
    """Bytes of the learngene; None where the method has none, or training decides its size."""
    if not method.cost_probe().knows_learngene:
        return None
    state = method.network.state_dict().items()
    learngene = method.learngene({name: torch.empty(t.shape, dtype=t.dtype, device="meta") for name, t in state})
    return sum(tensor.nbytes for tensor in learngene.tensors.values()) if learngene else None
