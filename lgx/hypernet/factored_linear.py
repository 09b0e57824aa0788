"""A linear layer with a low-rank weight A B, computed from the factors without their product."""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.grad import conv2d_weight


def factored_linear(x: Tensor, b: Tensor, a: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute x Bᵀ Aᵀ plus a bias.

    Under autocast it computes in autocast's precision, as ``F.linear`` does; float64 inputs keep their precision.

    Args:
        x: (..., in).
        b: B, (r, in).
        a: A, (out, r).
        bias: (out,), or None.

    Returns:
        (..., out).
    """
    device = x.device.type
    if torch.is_autocast_enabled(device) and x.dtype != torch.float64:  # autocast ignores float64
        dtype = torch.get_autocast_dtype(device)
        x, b, a, bias = x.to(dtype), b.to(dtype), a.to(dtype), None if bias is None else bias.to(dtype)
    y: Tensor = _FactoredLinear.apply(x.reshape(-1, x.shape[-1]), b, a, bias)
    return y.view(*x.shape[:-1], len(a))


THIN = 1.3
"""Time of a multiplication with a thin factor, compared with one of a dense product.

Measured on one and two CPU cores with ranks 64 and 90, and layers from 64 x 64 to 384 x 1,536: between 1.15 and 1.5.
"""


def dense_is_faster(rows: int, outputs: int, inputs: int, rank: int) -> bool:
    """Whether a layer is computed faster with the product W = A B than with its factors.

    The forward pass costs ``rows`` x out x in multiplications, and the product ``rank`` x out x in, against ``rows`` x
    ``rank`` x (out + in); the backward pass costs twice as much in both.
    """
    return outputs * inputs * (rows + rank) < THIN * rows * rank * (outputs + inputs)


class _FactoredLinear(torch.autograd.Function):
    """See :func:`factored_linear`.

    The rank is padded with zeros to a multiple of 16, because products with other sizes are a tenth slower. If there is
    padding, its first column in A holds the bias and the same column of x Bᵀ holds ones. The product then adds the
    bias, and its gradient needs no sum over the rows.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, b: Tensor, a: Tensor, bias: Tensor | None) -> Tensor:
        """(n, in), (r, in), (out, r), (out,) -> (n, out)."""
        rank, padding = a.shape[1], -a.shape[1] % 16
        wide_b, wide_a = F.pad(b, (0, 0, 0, padding)), F.pad(a, (0, padding))
        inner = _multiply(x, wide_b)
        if bias is not None and padding:
            inner[:, rank] = 1
            wide_a[:, rank] = bias
        ctx.save_for_backward(x, b, a, inner)
        ctx.biased, ctx.padding = bias is not None, padding
        y = _multiply(inner, wide_a)
        return y if bias is None or padding else y.add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor, Tensor | None]:
        """Compute the gradients of x, b, a and the bias, in their shapes."""
        x, b, a, inner = ctx.saved_tensors
        rank = a.shape[1]
        of_inner = _multiply(gradient, F.pad(a, (0, ctx.padding)).T)
        of_x = _multiply(of_inner, F.pad(b, (0, 0, 0, ctx.padding)).T) if ctx.needs_input_grad[0] else None
        of_a, of_b = _correlate(gradient, inner), _correlate(x, of_inner)
        of_bias = None
        if ctx.biased:
            of_bias = of_a[:, rank] if ctx.padding else gradient.sum(dim=0)
        return of_x, of_b[:, :rank].T, of_a[:, :rank], of_bias


# Matrix products on a CPU are slow if one dimension is small, as the rank is. As 1 x 1 convolutions, which another
# library computes, large products take up to a third less time.

MIN_PIXELS = 512
"""Fewest rows of x in one image of such a convolution.

Measured: 6,304 rows take up to a fifth less time as eight images than as one.
"""


def _multiply(x: Tensor, weight: Tensor) -> Tensor:
    """Compute x Wᵀ: (n, in), (out, in) -> (n, out)."""
    if not _is_large(x, weight.numel()):
        return x @ weight.T
    return F.conv2d(_pixels(x), weight[:, :, None, None]).permute(0, 2, 3, 1).flatten(0, 2)


def _correlate(x: Tensor, y: Tensor) -> Tensor:
    """Compute xᵀ y: (n, wide), (n, r) -> (wide, r)."""
    if not _is_large(x, x.shape[1] * y.shape[1]):
        return x.T @ y
    shape = (x.shape[1], y.shape[1], 1, 1)
    gradient: Tensor = conv2d_weight(_pixels(y), shape, _pixels(x))
    return gradient[:, :, 0, 0]


def _is_large(x: Tensor, products: int) -> bool:
    """Whether a convolution is faster for x (n, in) than n times this many products. Measured."""
    return x.is_cpu and x.dtype == torch.float32 and len(x) * products > 2**24


def _pixels(x: Tensor) -> Tensor:
    """(n, channels) -> (images, channels, 1, n / images), in channels-last memory format."""
    return x.reshape(_images(len(x)), 1, -1, x.shape[1]).permute(0, 3, 1, 2)


@cache
def _images(n: int) -> int:
    """Largest number of equal images of at least :data:`MIN_PIXELS` rows that n rows divide into; at least 1."""
    return next(images for images in range(max(n // MIN_PIXELS, 1), 0, -1) if n % images == 0)
