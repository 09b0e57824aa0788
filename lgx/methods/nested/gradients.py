"""The average of losses whose graphs would not fit into memory together."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class _WithGradients(torch.autograd.Function):
    """A loss whose gradients are known already."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, gradients: Sequence[Tensor], *parameters: Tensor) -> Tensor:
        ctx.gradients = gradients
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> Any:
        return None, None, *(gradient * outer[0] for gradient in ctx.gradients)


def average_of(
    losses: Sequence[Callable[[], dict[str, Tensor]]], parameters: Sequence[Tensor], scale: float = 1.0
) -> dict[str, Tensor]:
    """The average of several losses; the backward pass of each runs before the next one is computed.

    So a step needs the memory of its largest loss, not of their sum.

    Args:
        losses: Each gives ``loss``, a scalar, and its parts.
        parameters: What is trained.
        scale: Factor of the losses in these backward passes, against underflow in float16.

    Returns:
        The averages by name. The backward pass of ``loss`` gives the parameters their gradients; a parameter that no
        loss reaches gets none. The parts have no graph.
    """
    totals: dict[str, Tensor] = {}
    sums: dict[int, Tensor] = {}
    for compute in losses:
        parts = compute()
        for place, gradient in enumerate(torch.autograd.grad(parts["loss"] * scale, parameters, allow_unused=True)):
            if gradient is not None:
                sums[place] = gradient if place not in sums else sums[place].add_(gradient)
        totals = {name: totals.get(name, 0) + part.detach() for name, part in parts.items()}
    averages = {name: total / len(losses) for name, total in totals.items()}
    gradients = [gradient.div_(len(losses) * scale) for gradient in sums.values()]
    averages["loss"] = _WithGradients.apply(averages["loss"], gradients, *(parameters[place] for place in sums))
    return averages
