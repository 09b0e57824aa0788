"""A weight that is kept as the product of two thin factors."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.utils._pytree import tree_map

from lgx.hypernet.factored_linear import factored_linear

_KNOWN = {
    getattr(Tensor, name).__get__
    for name in ("shape", "dtype", "device", "ndim", "layout", "is_meta", "is_cpu", "is_cuda", "is_sparse", "is_nested")
}
"""What is known of a product without forming it."""


class LowRankTensor(Tensor):
    """A matrix W = A B that is never formed where it is only multiplied with.

    ``F.linear(x, W)`` costs two thin products, ``(x Bᵀ) Aᵀ``; so does ``torch.addmm(bias, x, W)``, which transformers'
    ``Conv1D`` calls, and ``F.embedding(i, W)`` looks up rows of A. Every other function gets the dense W, with its
    gradient, so that what changes W in place changes a copy; under autocast that W is of the low precision, as every
    product is there.
    A normalization is folded into a factor; slicing and tiling select rows of A and columns of B.

    Args:
        a: A, (out, r).
        b: B, (r, in).
        shared_norm: Gives ‖W‖_F where it is computed together with others; by default it is computed alone.
    """

    a: Tensor
    b: Tensor
    shared_norm: Callable[[], Tensor] | None

    @staticmethod
    def __new__(
        cls: type["LowRankTensor"], a: Tensor, b: Tensor, shared_norm: Callable[[], Tensor] | None = None
    ) -> "LowRankTensor":
        """A tensor without storage that has W's shape, dtype and device."""
        make: Callable[..., LowRankTensor] = Tensor._make_wrapper_subclass
        return make(cls, (a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)

    def __init__(self, a: Tensor, b: Tensor, shared_norm: Callable[[], Tensor] | None = None) -> None:
        self.a, self.b, self.shared_norm = a, b, shared_norm

    @classmethod
    def unbind_products(cls, a: Tensor, b: Tensor, transposed: bool = False) -> list["LowRankTensor"]:
        """Several matrices whose norms are computed together, when the first of them is asked for.

        Args:
            a: (n, out, r).
            b: (n, in, r), transposed in the product.
            transposed: Whether the matrices are B Aᵀ, (in, out), instead.
        """

        @cache
        def norms(differentiable: bool) -> tuple[Tensor, ...]:
            together: Tensor = _FrobeniusNorm.apply(a, b)
            return together.unbind()

        def norm_of(i: int) -> Callable[[], Tensor]:
            return lambda: norms(torch.is_grad_enabled())[i]

        pairs = zip(b, a, strict=True) if transposed else zip(a, b, strict=True)
        return [cls(left, right.T, norm_of(i)) for i, (left, right) in enumerate(pairs)]

    def __repr__(self) -> str:  # type: ignore[override]
        return f"LowRankTensor({tuple(self.shape)}, rank={self.a.shape[1]})"

    def to_dense(self) -> Tensor:  # type: ignore[override]
        """W, (out, in)."""
        return self.a @ self.b

    def frobenius_norm(self) -> Tensor:
        """‖W‖_F from the factors, at least in float32: sqrt(tr((Aᵀ A)(B Bᵀ)))."""
        if self.shared_norm is not None:
            return self.shared_norm()
        norm: Tensor = _FrobeniusNorm.apply(self.a.unsqueeze(0), self.b.T.unsqueeze(0))[0]
        return norm

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.linear:
            named = {**dict(zip(("input", "weight", "bias"), args, strict=False)), **kwargs}
            weight = named["weight"]
            if isinstance(weight, LowRankTensor) and not isinstance(named["input"], LowRankTensor):
                return factored_linear(named["input"], weight.b, weight.a, named.get("bias"))
        if func is torch.addmm and len(args) == 3 and not kwargs and _only_last(args) and args[0].ndim == 1:
            return factored_linear(args[1], args[2].a.T, args[2].b.T, args[0])
        if func is F.embedding and _only_last(args) and {**_PLAIN_LOOKUP, **kwargs} == _PLAIN_LOOKUP:
            return F.embedding(args[0], args[1].a) @ args[1].b
        if func in _KNOWN:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        # Densify here and not in __torch_dispatch__, which runs below autograd and would lose the gradient.
        return func(*tree_map(_dense, args), **tree_map(_dense, kwargs))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise RuntimeError(f"{func} reached a LowRankTensor below autograd; its gradient would be lost")


class _FrobeniusNorm(torch.autograd.Function):
    """‖A Bᵀ‖_F of n products, at least in float32, with a gradient of zero at zero.

    The gradient reuses both Gram matrices, which halves what autograd would do.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        """Norms (n,) of a, (n, out, r), times the transpose of b, (n, in, r)."""
        wide_a, wide_b = (t if t.dtype == torch.float64 else t.float() for t in (a, b))
        with torch.autocast(a.device.type, enabled=False):
            gram_a, gram_b = wide_a.mT @ wide_a, wide_b.mT @ wide_b
            norms = (gram_a * gram_b).sum((1, 2)).clamp(min=0).sqrt()
        ctx.save_for_backward(a, b, gram_a, gram_b, norms)
        return norms

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients like a and b."""
        a, b, gram_a, gram_b, norms = ctx.saved_tensors
        share = torch.where(norms > 0, gradient / norms, 0)[:, None, None]
        wide = gram_a.dtype
        with torch.autocast(a.device.type, enabled=False):
            return (a.to(wide) @ (gram_b * share)).to(a.dtype), (b.to(wide) @ (gram_a * share)).to(b.dtype)


_PLAIN_LOOKUP = {"padding_idx": None, "max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False, "sparse": False}
"""Options of ``F.embedding`` that make it nothing but a look-up."""


def _only_last(args: Sequence[Any]) -> bool:
    """Whether the last of the arguments, and no other, is kept as factors."""
    return [isinstance(argument, LowRankTensor) for argument in args] == [False] * (len(args) - 1) + [True]


def _dense(value: Any) -> Any:
    return value.a @ value.b if isinstance(value, LowRankTensor) else value


def frobenius_norm(parameter: Tensor) -> Tensor:
    """‖p‖_F, at least in float32, from the factors where there are any."""
    if isinstance(parameter, LowRankTensor):
        return parameter.frobenius_norm()
    wide = parameter if parameter.dtype == torch.float64 else parameter.float()
    return cast(Tensor, torch.linalg.vector_norm(wide))
