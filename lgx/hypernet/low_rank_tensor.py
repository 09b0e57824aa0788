"""A weight that is stored as the product of two thin factors."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.utils._pytree import tree_map

from lgx.hypernet.factored_linear import dense_is_faster, factored_linear

_METADATA_GETTERS = {
    getattr(Tensor, name).__get__
    for name in ("shape", "dtype", "device", "ndim", "layout", "is_meta", "is_cpu", "is_cuda", "is_sparse", "is_nested")
}
"""Attributes that are known without computing the product."""


class LowRankTensor(Tensor):
    """A matrix W = A B, (out, in), stored as its factors.

    Three functions use the factors: ``F.linear(x, W)`` computes ``(x Bᵀ) Aᵀ``, unless the rank is so near the size of W
    that computing W is faster; ``torch.addmm(bias, x, W)``, which ``Conv1D`` of transformers calls, does likewise;
    ``F.embedding(i, W)`` looks up rows of A and multiplies them by B. Every other function receives the dense W, with
    its gradient. In-place functions therefore change a copy, and under autocast W has autocast's precision.

    Args:
        a: A, (out, r).
        b: B, (r, in).
        shared_norm: Returns ‖W‖_F if it is computed together with other norms; by default it is computed alone.
    """

    a: Tensor
    b: Tensor
    shared_norm: Callable[[], Tensor] | None

    @staticmethod
    def __new__(
        cls: type["LowRankTensor"], a: Tensor, b: Tensor, shared_norm: Callable[[], Tensor] | None = None
    ) -> "LowRankTensor":
        """Create a tensor without storage, with W's shape, dtype and device."""
        make: Callable[..., LowRankTensor] = Tensor._make_wrapper_subclass
        return make(cls, (a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)

    def __init__(self, a: Tensor, b: Tensor, shared_norm: Callable[[], Tensor] | None = None) -> None:
        self.a, self.b, self.shared_norm = a, b, shared_norm

    @classmethod
    def unbind_products(cls, a: Tensor, b: Tensor, transposed: bool = False) -> list["LowRankTensor"]:
        """Create n matrices A Bᵀ whose norms are computed together as soon as one of them is needed.

        Args:
            a: A of each matrix, (n, out, r).
            b: B of each matrix, (n, in, r).
            transposed: Whether the matrices are B Aᵀ, (in, out), instead.

        Returns:
            The n matrices.
        """

        @cache
        def norms(differentiable: bool) -> tuple[Tensor, ...]:
            """The norms, a scalar for each matrix; kept apart with and without gradients."""
            together: Tensor = _FrobeniusNorm.apply(a, b)
            return together.unbind()

        def norm_of(i: int) -> Callable[[], Tensor]:
            return lambda: norms(torch.is_grad_enabled())[i]

        pairs = zip(b, a, strict=True) if transposed else zip(a, b, strict=True)
        return [cls(left, right.T, norm_of(i)) for i, (left, right) in enumerate(pairs)]

    def __repr__(self) -> str:  # type: ignore[override]
        return f"LowRankTensor({tuple(self.shape)}, rank={self.a.shape[1]})"

    def to_dense(self) -> Tensor:  # type: ignore[override]
        """Compute W, (out, in)."""
        return self.a @ self.b

    def frobenius_norm(self) -> Tensor:
        """Compute ‖W‖_F = sqrt(tr((Aᵀ A)(B Bᵀ))) from the factors; a scalar, in float32 or float64."""
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
                if _is_dense_faster(named["input"], weight):
                    return F.linear(named["input"], weight.to_dense(), named.get("bias"))
                return factored_linear(named["input"], weight.b, weight.a, named.get("bias"))
        if (
            func is torch.addmm and len(args) == 3 and not kwargs and _only_last(args) and args[0].ndim == 1
            and not _is_dense_faster(args[1], args[2])
        ):  # fmt: skip
            return factored_linear(args[1], args[2].a.T, args[2].b.T, args[0])
        if func is F.embedding and _only_last(args) and {**_PLAIN_LOOKUP, **kwargs} == _PLAIN_LOOKUP:
            return F.embedding(args[0], args[1].a) @ args[1].b
        if func in _METADATA_GETTERS:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        # Compute the product here: in __torch_dispatch__, below autograd, it would have no gradient.
        return func(*tree_map(_dense, args), **tree_map(_dense, kwargs))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise RuntimeError(f"{func} reached a LowRankTensor below autograd; its gradient would be lost")


class _FrobeniusNorm(torch.autograd.Function):
    """‖A Bᵀ‖_F of n products, in float32 or float64. The gradient of a zero product is zero.

    The backward pass reuses both Gram matrices, which halves the work of autograd's own backward pass.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        """(n, out, r), (n, in, r) -> (n,)."""
        wide_a, wide_b = (t if t.dtype == torch.float64 else t.float() for t in (a, b))
        with torch.autocast(a.device.type, enabled=False):
            gram_a, gram_b = wide_a.mT @ wide_a, wide_b.mT @ wide_b
            norms = (gram_a * gram_b).sum((1, 2)).clamp(min=0).sqrt()
        ctx.save_for_backward(a, b, gram_a, gram_b, norms)
        return norms

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the gradients of a and b, in their shapes."""
        a, b, gram_a, gram_b, norms = ctx.saved_tensors
        share = torch.where(norms > 0, gradient / norms, 0)[:, None, None]
        wide = gram_a.dtype
        with torch.autocast(a.device.type, enabled=False):
            return (a.to(wide) @ (gram_b * share)).to(a.dtype), (b.to(wide) @ (gram_a * share)).to(b.dtype)


_PLAIN_LOOKUP = {"padding_idx": None, "max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False, "sparse": False}
"""Options with which ``F.embedding`` only looks up rows."""


def _only_last(args: Sequence[Any]) -> bool:
    """Whether the last argument, and no other, is a :class:`LowRankTensor`."""
    return [isinstance(argument, LowRankTensor) for argument in args] == [False] * (len(args) - 1) + [True]


def _is_dense_faster(x: Tensor, weight: LowRankTensor) -> bool:
    """Whether the product is faster for inputs (..., in)."""
    return dense_is_faster(x.numel() // x.shape[-1], weight.a.shape[0], weight.b.shape[1], weight.a.shape[1])


def _dense(value: Any) -> Any:
    return value.a @ value.b if isinstance(value, LowRankTensor) else value


def frobenius_norm(parameter: Tensor) -> Tensor:
    """Frobenius norm of a parameter, computed from the factors if it has them.

    Args:
        parameter: A tensor of any shape, or a :class:`LowRankTensor`.

    Returns:
        Scalar, in float32 or float64.
    """
    if isinstance(parameter, LowRankTensor):
        return parameter.frobenius_norm()
    wide = parameter if parameter.dtype == torch.float64 else parameter.float()
    return cast(Tensor, torch.linalg.vector_norm(wide))
