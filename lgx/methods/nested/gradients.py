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
        return None, None, *torch._foreach_mul(ctx.gradients, outer[0])


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
        gradients = torch.autograd.grad(parts["loss"] * scale, parameters, allow_unused=True)
        found = {place: gradient for place, gradient in enumerate(gradients) if gradient is not None}
        if again := [place for place in found if place in sums]:
            torch._foreach_add_([sums[place] for place in again], [found[place] for place in again])
        sums = found | sums
        totals = {name: totals.get(name, 0) + part.detach() for name, part in parts.items()}
    averages = {name: total / len(losses) for name, total in totals.items()}
    torch._foreach_div_(total := list(sums.values()), len(losses) * scale)
    averages["loss"] = _WithGradients.apply(averages["loss"], total, *(parameters[place] for place in sums))
    return averages
