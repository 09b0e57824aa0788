"""A linear layer whose weight is a product A B that is never formed."""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.grad import conv2d_weight


def factored_linear(x: Tensor, b: Tensor, a: Tensor, bias: Tensor | None = None) -> Tensor:
    """Two thin products, x Bᵀ Aᵀ, and a bias.

    Args:
        x: (..., in).
        b: B, (r, in).
        a: A, (out, r).
        bias: (out,).

    Returns:
        (..., out).
    """
    device = x.device.type
    if torch.is_autocast_enabled(device) and x.dtype != torch.float64:  # which autocast leaves alone
        dtype = torch.get_autocast_dtype(device)
        x, b, a, bias = x.to(dtype), b.to(dtype), a.to(dtype), None if bias is None else bias.to(dtype)
    y: Tensor = _FactoredLinear.apply(x.reshape(-1, x.shape[-1]), b, a, bias)
    return y.view(*x.shape[:-1], len(a))


class _FactoredLinear(torch.autograd.Function):
    """See :func:`factored_linear`.

    The rank is filled up with zeros to a multiple of 16: products with odd sizes are a tenth slower. Where that makes
    room, the bias is one more column of A, and a one stands in that column of x Bᵀ: then neither is the bias spread
    over the rows beforehand, nor its gradient summed over them afterwards.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, b: Tensor, a: Tensor, bias: Tensor | None) -> Tensor:
        """(n, in), (r, in), (out, r), (out,) -> (n, out)."""
        rank, room = a.shape[1], -a.shape[1] % 16
        wide_b, wide_a = F.pad(b, (0, 0, 0, room)), F.pad(a, (0, room))
        inner = _multiply(x, wide_b)
        if bias is not None and room:
            inner[:, rank] = 1
            wide_a[:, rank] = bias
        ctx.save_for_backward(x, b, a, inner)
        ctx.biased, ctx.room = bias is not None, room
        y = _multiply(inner, wide_a)
        return y if bias is None or room else y.add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor, Tensor | None]:
        """Gradients like x, b, a and the bias."""
        x, b, a, inner = ctx.saved_tensors
        rank = a.shape[1]
        of_inner = _multiply(gradient, F.pad(a, (0, ctx.room)).T)
        of_x = _multiply(of_inner, F.pad(b, (0, 0, 0, ctx.room)).T) if ctx.needs_input_grad[0] else None
        of_a, of_b = _correlate(gradient, inner), _correlate(x, of_inner)
        of_bias = None
        if ctx.biased:
            of_bias = of_a[:, rank] if ctx.room else gradient.sum(dim=0)
        return of_x, of_b[:, :rank].T, of_a[:, :rank], of_bias


# A rank is a small size, with which a CPU's matrix products are slow. As convolutions of single pixels, which another
# library computes, large ones take up to a third less.

LEAST_PIXELS = 512
"""Fewest rows of an image; 6,304 rows take up to a fifth less time as eight images than as one. Measured."""


def _multiply(x: Tensor, weight: Tensor) -> Tensor:
    """Give x Wᵀ: (n, in), (out, in) -> (n, out)."""
    if not _is_large(x, weight.numel()):
        return x @ weight.T
    return F.conv2d(_pixels(x), weight[:, :, None, None]).permute(0, 2, 3, 1).flatten(0, 2)


def _correlate(x: Tensor, y: Tensor) -> Tensor:
    """Give xᵀ y: (n, wide), (n, r) -> (wide, r)."""
    if not _is_large(x, x.shape[1] * y.shape[1]):
        return x.T @ y
    shape = (x.shape[1], y.shape[1], 1, 1)
    gradient: Tensor = conv2d_weight(_pixels(y), shape, _pixels(x))
    return gradient[:, :, 0, 0]


def _is_large(x: Tensor, products: int) -> bool:
    """Whether n times so many products are worth a convolution, which costs more to set up; measured."""
    return x.is_cpu and x.dtype == torch.float32 and len(x) * products > 2**24


def _pixels(x: Tensor) -> Tensor:
    """(n, channels) -> (images, channels, 1, n / images), which lie channels last."""
    return x.reshape(_images(len(x)), 1, -1, x.shape[1]).permute(0, 3, 1, 2)


@cache
def _images(n: int) -> int:
    """Into how many equal images n rows can be cut."""
    return next(images for images in range(max(n // LEAST_PIXELS, 1), 0, -1) if n % images == 0)
