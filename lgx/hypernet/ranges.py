"""Slices that share one gradient."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class RowRanges(torch.autograd.Function):
    """Ranges of a tensor's rows whose gradients gather in one tensor.

    An ordinary slice gets a gradient of the whole tensor's size, mostly zeros, for every use.
    """

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, ranges: Sequence[tuple[int, int]]) -> tuple[Tensor, ...]:
        """The ranges, as views.

        Args:
            ctx: Autograd's context.
            tensor: (rows, ...).
            ranges: (first, behind the last) of each.
        """
        ctx.ranges, ctx.like = ranges, tensor
        return tuple(tensor[start:stop] for start, stop in ranges)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor, None]:
        """Add every range's gradient at its place."""
        whole = torch.zeros_like(ctx.like)
        for (start, stop), gradient in zip(ctx.ranges, gradients, strict=True):
            if gradient is not None:
                whole[start:stop] += gradient
        return whole, None
