"""Predicted parameters of several networks, joined so that few operations scale, split and measure them.

A GPU computes an operation on a single parameter faster than a CPU starts it. Shapes: n parameters, r rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lgx.hypernet.decoder import Factors
from lgx.hypernet.low_rank_tensor import LowRankTensor

Name = tuple[int, str]
"""Index of a network's graph, and the name of its parameter."""
K = TypeVar("K")
Stack = tuple[Sequence[K], Tensor]
"""Names of n tensors of one shape, and the tensors, (n, ...)."""


class Joined(Generic[K]):
    """Tensors that may differ in the number of rows, one after the other.

    Args:
        stacks: The tensors, (n, rows, ...).

    Attributes:
        names: Name of each tensor.
        sizes: Number of rows of each, in increasing order.
        stacks: The tensors in this order.
    """

    def __init__(self, stacks: Sequence[Stack[K]]) -> None:
        ordered = sorted(stacks, key=lambda stack: stack[1].shape[1])
        self.names = [name for names, _ in ordered for name in names]
        self.sizes = [values.shape[1] for names, values in ordered for _ in names]
        self.stacks = [values for _, values in ordered]

    @cached_property
    def rows(self) -> Tensor:
        """The rows of all tensors, (R, ...)."""
        return torch.cat([values.flatten(0, 1) for values in self.stacks])

    def repeat(self, values: Sequence[float]) -> Tensor:
        """Repeat the value of each tensor for its rows, (R,)."""
        first = self.stacks[0]
        dtype = np.float64 if first.dtype == torch.float64 else np.float32
        return torch.from_numpy(np.repeat(np.array(values, dtype), self.sizes)).to(first)

    def split(self) -> dict[K, Tensor]:
        """The tensors by name, as views."""
        return dict(zip(self.names, self.rows.split(self.sizes), strict=True))


@dataclass(frozen=True)
class Predicted:
    """All parameters of several networks.

    Attributes:
        dense: Matrices and kernels.
        products: Names of matrices that stay products, and their factors.
        vectors: Vectors.
    """

    dense: Sequence[Stack[Name]]
    products: Sequence[tuple[Sequence[Name], Factors]]
    vectors: Joined[Name]

    @cached_property
    def factors(self) -> Joined[tuple[Name, int]]:
        """The factors A (side 0) and s B (side 1) of all products.

        The rank is padded to a multiple of 16, because products with other sizes are a tenth slower. The first
        additional column of A holds the layer's bias, so that the product adds it.
        """
        stacks, scales = [], {}
        for names, product in self.products:
            stacks += [([(name, side) for name in names], values) for side, values in enumerate((product.a, product.b))]
            scales.update(dict.fromkeys(names, product.scale))
        joined = Joined(stacks)
        of_rows = joined.repeat([scales[name] if side else 1.0 for name, side in joined.names])
        zeros = of_rows.new_zeros(max(joined.sizes))
        biases = [None if side else self._bias(name) for name, side in joined.names]
        columns = [zeros[:size] if bias is None else bias for bias, size in zip(biases, joined.sizes, strict=True)]
        joined.rows = _JoinFactors.apply(of_rows, torch.cat(columns), *joined.stacks)
        return joined

    @cached_property
    def _vectors(self) -> dict[Name, Tensor]:
        return self.vectors.split()

    def _bias(self, name: Name) -> Tensor | None:
        """The bias of a matrix's layer."""
        network, weight = name
        return self._vectors.get((network, weight.removesuffix("weight") + "bias"))

    def by_name(self, count: int) -> list[dict[str, Tensor]]:
        """The parameters of each of so many networks by name; products are low-rank tensors."""
        tensors = dict(self._vectors)
        if self.products:
            tensors |= self._low_rank_tensors()
        for names, values in self.dense:
            tensors.update(zip(names, values.unbind(), strict=True))
        networks: list[dict[str, Tensor]] = [{} for _ in range(count)]
        for (network, name), tensor in tensors.items():
            networks[network][name] = tensor
        return networks

    def _low_rank_tensors(self) -> dict[Name, LowRankTensor]:
        """The products by name."""
        factors = self.factors.split()
        rows = self.factors.rows
        rank = self.products[0][1].a.shape[-1]
        ones = torch.from_numpy(np.float32(np.arange(rows.shape[1]) == rank)).to(rows) if rank % 16 else None
        low_rank = {}
        for names, product in self.products:
            for name in names:
                left, right = factors[name, int(product.transposed)], factors[name, int(not product.transposed)]
                low_rank[name] = LowRankTensor(left, right.T, self._bias(name), ones)
        return low_rank

    def sum_of_norms(self) -> Tensor:
        """Σ ‖W‖_F over all parameters, a scalar in float32 or float64. The gradient of a zero norm is zero."""
        total: Tensor = _SumOfNorms.apply(self.vectors.sizes, self.vectors.rows, *(values for _, values in self.dense))
        if self.products:
            places = {factor: place for place, factor in enumerate(self.factors.names)}
            partners = [places[name, 1 - side] for name, side in places]
            total = total + _SumOfProductNorms.apply(partners, self.factors.sizes, self.factors.rows)
        return total


class _SumOfNorms(torch.autograd.Function):
    """Sum of the Frobenius norms of joined vectors and of stacked tensors."""

    @staticmethod
    def forward(ctx: Any, sizes: Sequence[int], vectors: Tensor, *stacks: Tensor) -> Tensor:
        """Sizes of the vectors, the vectors (R,), stacks (n, ...) -> scalar."""
        tensors = [*_wide(vectors).split(sizes), *(tensor for stack in stacks for tensor in _wide(stack).unbind())]
        norms = torch.stack(torch._foreach_norm(tensors))
        ctx.save_for_backward(norms, vectors, *stacks)
        ctx.vector_of_row = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes)).to(vectors.device)
        ctx.counts = [len(sizes), *map(len, stacks)]
        return norms.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of vectors and stacks, in their shapes."""
        norms, vectors, *stacks = ctx.saved_tensors
        of_vectors, *shares = _share(gradient, norms).split(ctx.counts)
        pairs = [(vectors, of_vectors.index_select(0, ctx.vector_of_row))]
        pairs += [(t, share.view(-1, *[1] * (t.ndim - 1))) for t, share in zip(stacks, shares, strict=True)]
        return None, *((_wide(t) * share).to(t.dtype) for t, share in pairs)


class _JoinFactors(torch.autograd.Function):
    """Factors one after the other, each row scaled, with additional columns up to a multiple of 16.

    The first of these columns has values, the others are zero.
    """

    @staticmethod
    def forward(ctx: Any, scales: Tensor, column: Tensor, *stacks: Tensor) -> Tensor:
        """Scales and the values of the column, both (R,), factors (n, rows, r) -> (R, r padded)."""
        rank = stacks[0].shape[-1]
        ctx.save_for_backward(scales)
        ctx.shapes = [stack.shape for stack in stacks]
        joined = scales.new_empty(len(scales), rank + -rank % 16)
        factors, padding = joined.split([rank, -rank % 16], dim=1)
        torch.cat([stack.flatten(0, 1) for stack in stacks], out=factors)
        factors.mul_(scales[:, None])
        if rank % 16:
            padding.zero_()[:, 0] = column
        return joined

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of the column and the factors, in their shapes."""
        (scales,) = ctx.saved_tensors
        rank = ctx.shapes[0][-1]
        of_factors = (gradient[:, :rank] * scales[:, None]).split([shape[:2].numel() for shape in ctx.shapes])
        of_column = gradient[:, rank] if rank % 16 else None
        return None, of_column, *(part.view(shape) for part, shape in zip(of_factors, ctx.shapes, strict=True))


class _SumOfProductNorms(torch.autograd.Function):
    """Sum of the Frobenius norms of products A Bᵀ, each of which is sqrt(tr((Aᵀ A)(Bᵀ B))).

    The biases in a column of A add nothing, because this column of B is zero. The backward pass reuses the Gram
    matrices, which halves the work of autograd's own backward pass.
    """

    @staticmethod
    def forward(ctx: Any, partners: Sequence[int], sizes: Sequence[int], rows: Tensor) -> Tensor:
        """Index of the factor with which each is multiplied, factors' sizes, joined factors (R, r padded) -> scalar."""
        with torch.autocast(rows.device.type, enabled=False):
            grams = torch.cat([wide.mT @ wide for wide in _stacks(_wide(rows), sizes)])
        of_partners = grams[partners]
        norms = (grams * of_partners).sum((1, 2)).clamp(min=0).sqrt()  # of each product, at both of its factors
        ctx.save_for_backward(norms, of_partners, rows)
        ctx.sizes = sizes
        return norms.sum() / 2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradient of the factors, (R, r padded)."""
        norms, of_partners, rows = ctx.saved_tensors
        wide = _wide(rows)
        stacks = _stacks(wide, ctx.sizes)
        of_rows = torch.empty_like(wide)
        weighted = (of_partners * _share(gradient, norms)[:, None, None]).split([len(stack) for stack in stacks])
        with torch.autocast(norms.device.type, enabled=False):
            for stack, gram, of_stack in zip(stacks, weighted, _stacks(of_rows, ctx.sizes), strict=True):
                torch.bmm(stack, gram, out=of_stack)
        return None, None, of_rows.to(rows.dtype)


def _stacks(rows: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """Tensors of these numbers of rows as stacks (n, rows, ...), one for each number of rows, as views."""
    counts = [(len(list(run)), size) for size, run in groupby(sizes)]
    parts = rows.split([count * size for count, size in counts])
    return [part.unflatten(0, shape) for part, shape in zip(parts, counts, strict=True)]


def _share(gradient: Tensor, norms: Tensor) -> Tensor:
    """Gradient of the sum, a scalar, divided by each norm, (N,); finite where a norm is zero."""
    return gradient / norms.clamp(min=torch.finfo(norms.dtype).tiny ** 0.75)


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()
