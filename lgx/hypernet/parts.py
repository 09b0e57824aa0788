"""Inputs through parts of a large linear map."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class ThroughParts(torch.autograd.Function):
    """Inputs through parts of a map, whose gradients gather in one tensor.

    An ordinary slice gets a gradient of the whole map's size, mostly zeros, for every use. The outer products b mᵀ are
    large; they are made again in the backward pass, not kept.
    """

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, bias: Tensor, ranges: Sequence[tuple[int, int]], *inputs: Tensor
    ) -> tuple[Tensor, ...]:
        """What columns give of inputs m, or their viewed rows of inputs (m, b).

        Args:
            ctx: Autograd's context.
            weight: (size, r).
            bias: (size,).
            ranges: (first, behind the last) column of each part.
            inputs: Of each part m, (n, r), or m and b, (n, 2 r).

        Returns:
            Of each part (n, columns) or (n, columns / r).
        """
        ctx.ranges = ranges
        ctx.save_for_backward(weight, bias, *inputs)
        rank = weight.shape[1]
        outs = []
        for (start, stop), x in zip(ranges, inputs, strict=True):
            w, c = weight[start:stop], bias[start:stop]
            if x.shape[1] == rank:
                outs.append(torch.addmm(c, x, w.T))
            else:
                outer, b = _outer(x)
                outs.append(torch.addmm(b @ c.view(-1, rank).T, outer, w.view(-1, rank**2).T))
        return tuple(outs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients like weight, bias and the inputs."""
        weight, bias, *inputs = ctx.saved_tensors
        rank = weight.shape[1]
        of_weight, of_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        of_inputs = []
        for (start, stop), x, gradient in zip(ctx.ranges, inputs, gradients, strict=True):
            w, c, of_w, of_c = (t[start:stop] for t in (weight, bias, of_weight, of_bias))
            if x.shape[1] == rank:
                of_w.addmm_(gradient.T, x)
                of_c += gradient.sum(dim=0)
                of_inputs.append(gradient @ w)
                continue
            outer, b = _outer(x)
            transposed = gradient.T.contiguous()  # MKL is slow with a thin matrix that lies the other way
            of_w.view(-1, rank**2).addmm_(transposed, outer)
            of_c.view(-1, rank).addmm_(transposed, b)
            of_outer = (gradient @ w.view(-1, rank**2)).view(-1, rank, rank)
            of_b = torch.baddbmm((gradient @ c.view(-1, rank))[:, :, None], of_outer, x[:, :rank, None])
            of_inputs.append(torch.cat([(b[:, None] @ of_outer)[:, 0], of_b[:, :, 0]], dim=1))
        return of_weight, of_bias, None, *of_inputs


def _outer(x: Tensor) -> tuple[Tensor, Tensor]:
    """Of (m, b), (n, 2 r), the outer products b mᵀ, (n, r²), and b."""
    m, b = x.chunk(2, dim=1)
    return (b[:, :, None] * m[:, None]).flatten(1), b
