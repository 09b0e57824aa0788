"""A weight that is stored as the product of two thin factors, and a linear layer that computes with the factors."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.utils._pytree import tree_map


def factored_linear(
    x: Tensor, b: Tensor, a: Tensor, bias: Tensor | None = None, inner_bias: Tensor | None = None
) -> Tensor:
    """Compute (x Bᵀ + c) Aᵀ plus a bias.

    Under autocast it computes in autocast's precision, as ``F.linear`` does; float64 inputs keep their precision.

    Args:
        x: (..., in).
        b: B, (r, in).
        a: A, (out, r).
        bias: (out,), or None.
        inner_bias: c, (r,), without a gradient, or None.

    Returns:
        (..., out).
    """
    device = x.device.type
    if torch.is_autocast_enabled(device) and x.dtype != torch.float64:  # autocast ignores float64
        dtype = torch.get_autocast_dtype(device)
        x = x.to(dtype)
        b = b.to(dtype)
        a = a.to(dtype)
        bias = None if bias is None else bias.to(dtype)
        inner_bias = None if inner_bias is None else inner_bias.to(dtype)
    y: Tensor = _FactoredLinear.apply(x.reshape(-1, x.shape[-1]), b, a, bias, inner_bias)
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
    """See :func:`factored_linear`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, b: Tensor, a: Tensor, bias: Tensor | None, inner_bias: Tensor | None) -> Tensor:
        """(n, in), (r, in), (out, r), (out,), (r,) -> (n, out)."""
        inner = F.linear(x, b, inner_bias)
        ctx.save_for_backward(x, b, a, inner)
        return F.linear(inner, a, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of x, b, a and the bias, in their shapes."""
        x, b, a, inner = ctx.saved_tensors
        of_inner = gradient @ a
        of_x = of_inner @ b if ctx.needs_input_grad[0] else None
        of_bias = gradient.sum(dim=0) if ctx.needs_input_grad[3] else None
        return of_x, of_inner.T @ x, gradient.T @ inner, of_bias, None


_METADATA_GETTERS = {
    getattr(Tensor, name).__get__
    for name in ("shape", "dtype", "device", "ndim", "layout", "is_meta", "is_cpu", "is_cuda", "is_sparse", "is_nested")
}
"""Attributes that are known without computing the product."""


class LowRankTensor(Tensor):
    """A matrix W = A B, (out, in), stored as its factors.

    Three functions use the factors: ``F.linear(x, W)`` computes ``(x Bᵀ) Aᵀ``; ``torch.addmm(bias, x, W)``, which
    ``Conv1D`` of transformers calls, does likewise;
    ``F.embedding(i, W)`` looks up rows of A and multiplies them by B. Every other function receives the dense W, with
    its gradient. In-place functions therefore change a copy, and under autocast W has autocast's precision.

    Args:
        a: A, (out, r).
        b: B, (r, in).
        bias: The layer's bias.
        ones: If a column of the factor with the outputs holds the bias, where the other factor is zero: (r,), 1 at this
            column and 0 elsewhere. Added to the product with the other factor, it adds the bias without an operation
            for it, and its gradient needs no sum.
    """

    a: Tensor
    b: Tensor
    bias: Tensor | None
    ones: Tensor | None

    @staticmethod
    def __new__(
        cls: type["LowRankTensor"], a: Tensor, b: Tensor, bias: Tensor | None = None, ones: Tensor | None = None
    ) -> "LowRankTensor":
        """Create a tensor without storage, with W's shape, dtype and device."""
        make: Callable[..., LowRankTensor] = Tensor._make_wrapper_subclass
        return make(cls, (a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)

    def __init__(self, a: Tensor, b: Tensor, bias: Tensor | None = None, ones: Tensor | None = None) -> None:
        self.a, self.b, self.bias, self.ones = a, b, bias, ones

    def __repr__(self) -> str:  # type: ignore[override]
        return f"LowRankTensor({tuple(self.shape)}, rank={self.a.shape[1]})"

    def to_dense(self) -> Tensor:  # type: ignore[override]
        """Compute W, (out, in)."""
        return self.a @ self.b

    def _linear(self, x: Tensor, inner: Tensor, outer: Tensor, bias: Tensor | None) -> Tensor:
        """Multiply inputs (..., in) by one factor (r, in) and the other (out, r), and add a bias (out,)."""
        if self.ones is not None and bias is not None and bias is self.bias:
            return factored_linear(x, inner, outer, inner_bias=self.ones)
        return factored_linear(x, inner, outer, bias)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.linear:
            named = {**dict(zip(("input", "weight", "bias"), args, strict=False)), **kwargs}
            weight = named["weight"]
            if isinstance(weight, LowRankTensor) and not isinstance(named["input"], LowRankTensor):
                return weight._linear(named["input"], weight.b, weight.a, named.get("bias"))
        if func is torch.addmm and len(args) == 3 and not kwargs and _only_last(args) and args[0].ndim == 1:
            return args[2]._linear(args[1], args[2].a.T, args[2].b.T, args[0])
        if func is F.embedding and _only_last(args) and {**_PLAIN_LOOKUP, **kwargs} == _PLAIN_LOOKUP:
            return F.embedding(args[0], args[1].a) @ args[1].b
        if func in _METADATA_GETTERS:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        # Compute the product here: in __torch_dispatch__, below autograd, it would have no gradient.
        return func(*tree_map(_dense_value, args), **tree_map(_dense_value, kwargs))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise RuntimeError(f"{func} reached a LowRankTensor below autograd; its gradient would be lost")


_PLAIN_LOOKUP = {"padding_idx": None, "max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False, "sparse": False}
"""Options with which ``F.embedding`` only looks up rows."""


def _only_last(args: Sequence[Any]) -> bool:
    """Whether the last argument, and no other, is a :class:`LowRankTensor`."""
    return [isinstance(argument, LowRankTensor) for argument in args] == [False] * (len(args) - 1) + [True]


def _dense_value(value: Any) -> Any:
    return value.a @ value.b if isinstance(value, LowRankTensor) else value
