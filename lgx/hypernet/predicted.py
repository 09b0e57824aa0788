"""Predicted parameters of several networks, joined so that few operations scale, split and measure them.

A GPU computes an operation on a single parameter faster than a CPU starts it. Shapes: n parameters, r rank.
"""

from collections.abc import Mapping, Sequence
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
        rows: The rows of all tensors, (R, ...).
    """

    def __init__(self, stacks: Sequence[Stack[K]]) -> None:
        ordered = sorted(stacks, key=lambda stack: stack[1].shape[1])
        self.names = [name for names, _ in ordered for name in names]
        self.sizes = [values.shape[1] for names, values in ordered for _ in names]
        self.rows = torch.cat([values.flatten(0, 1) for _, values in ordered])

    def repeat(self, values: Sequence[float]) -> Tensor:
        """Repeat the value of each tensor for its rows, (R,)."""
        dtype = np.float64 if self.rows.dtype == torch.float64 else np.float32
        return torch.from_numpy(np.repeat(np.array(values, dtype), self.sizes)).to(self.rows)

    def split(self) -> dict[K, Tensor]:
        """The tensors by name, as views."""
        return dict(zip(self.names, self.rows.split(self.sizes), strict=True))

    def stacks(self) -> list[Tensor]:
        """All tensors, (n, rows, ...) for each number of rows, as views."""
        counts = [(len(list(run)), size) for size, run in groupby(self.sizes)]
        parts = self.rows.split([count * size for count, size in counts])
        return [part.unflatten(0, shape) for part, shape in zip(parts, counts, strict=True)]


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
        """The factors A (side 0) and s B (side 1) of all products."""
        stacks, scales = [], {}
        for names, product in self.products:
            stacks += [([(name, side) for name in names], values) for side, values in enumerate((product.a, product.b))]
            scales.update(dict.fromkeys(names, product.scale))
        joined = Joined(stacks)
        of_rows = joined.repeat([scales[name] if side else 1.0 for name, side in joined.names])
        joined.rows.mul_(of_rows[:, None])
        return joined

    def by_name(self, count: int) -> list[dict[str, Tensor]]:
        """The parameters of each of so many networks by name; products are low-rank tensors."""
        tensors = self.vectors.split()
        if self.products:
            tensors |= self._low_rank_tensors(tensors)
        for names, values in self.dense:
            tensors.update(zip(names, values.unbind(), strict=True))
        networks: list[dict[str, Tensor]] = [{} for _ in range(count)]
        for (network, name), tensor in tensors.items():
            networks[network][name] = tensor
        return networks

    def _low_rank_tensors(self, vectors: Mapping[Name, Tensor]) -> dict[Name, LowRankTensor]:
        """The products by name.

        The rank is padded to a multiple of 16, because products with other sizes are a tenth slower. The first
        additional column of A holds the layer's bias, so that the product adds it.
        """
        names, sizes, rows = self.factors.names, self.factors.sizes, self.factors.rows
        biases = {(g, name): vectors.get((g, name.removesuffix("weight") + "bias")) for (g, name), _ in names}
        ones = None
        rank = rows.shape[1]
        if rank % 16:
            zeros = rows.new_zeros(len(rows), -rank % 16)
            column = []
            for (name, side), size in zip(names, sizes, strict=True):
                bias = None if side else biases[name]
                column.append(zeros[:size, 0] if bias is None else bias)
            rows = torch.cat([rows, torch.cat(column)[:, None], zeros[:, 1:]], dim=1)
            ones = torch.from_numpy(np.float32(np.arange(rows.shape[1]) == rank)).to(rows)
        factors = dict(zip(names, rows.split(sizes), strict=True))
        low_rank = {}
        for of_product, product in self.products:
            for name in of_product:
                left, right = factors[name, int(product.transposed)], factors[name, int(not product.transposed)]
                low_rank[name] = LowRankTensor(left, right.T, biases[name], ones)
        return low_rank

    def sum_of_norms(self) -> Tensor:
        """Σ ‖W‖_F over all parameters, a scalar in float32 or float64. The gradient of a zero norm is zero."""
        total: Tensor = _SumOfNorms.apply(self.vectors.sizes, self.vectors.rows, *(values for _, values in self.dense))
        if self.products:
            places = {factor: place for place, factor in enumerate(self.factors.names)}
            partners = [places[name, 1 - side] for name, side in places]
            total = total + _SumOfProductNorms.apply(partners, *self.factors.stacks())
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


class _SumOfProductNorms(torch.autograd.Function):
    """Sum of the Frobenius norms of products A Bᵀ, each of which is sqrt(tr((Aᵀ A)(Bᵀ B))).

    The backward pass reuses the Gram matrices, which halves the work of autograd's own backward pass.
    """

    @staticmethod
    def forward(ctx: Any, partners: Sequence[int], *stacks: Tensor) -> Tensor:
        """Factors (n, rows, r), and index of the factor with which each is multiplied -> scalar."""
        with torch.autocast(stacks[0].device.type, enabled=False):
            grams = torch.cat([wide.mT @ wide for wide in map(_wide, stacks)])
        of_partners = grams[partners]
        norms = (grams * of_partners).sum((1, 2)).clamp(min=0).sqrt()  # of each product, at both of its factors
        ctx.save_for_backward(norms, of_partners, *stacks)
        return norms.sum() / 2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of the factors, in their shapes."""
        norms, of_partners, *stacks = ctx.saved_tensors
        weighted = (of_partners * _share(gradient, norms)[:, None, None]).split([len(stack) for stack in stacks])
        with torch.autocast(norms.device.type, enabled=False):
            return None, *((_wide(t) @ gram).to(t.dtype) for t, gram in zip(stacks, weighted, strict=True))


def _share(gradient: Tensor, norms: Tensor) -> Tensor:
    """Gradient of the sum, a scalar, divided by each norm, (N,); finite where a norm is zero."""
    return gradient / norms.clamp(min=torch.finfo(norms.dtype).tiny ** 0.75)


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()
