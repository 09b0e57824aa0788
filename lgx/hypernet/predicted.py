"""Predicted parameters of several networks, joined so that few operations scale, split and measure them.

A GPU computes an operation on a single parameter faster than a CPU starts it. Shapes: n parameters, r rank.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lgx.hypernet.low_rank_tensor import LowRankTensor

Name = tuple[int, str]
"""Index of a network's graph, and the name of its parameter."""
K = TypeVar("K")


@dataclass(frozen=True)
class Stack(Generic[K]):
    """Tensors of one shape.

    Attributes:
        names: Name of each.
        values: The tensors, (n, ...).
    """

    names: Sequence[K]
    values: Tensor

    def scaled(self, scales: Sequence[float]) -> "Stack[K]":
        """Multiply each tensor by its factor."""
        if len(set(scales)) == 1:
            return self if scales[0] == 1 else Stack(self.names, self.values * scales[0])
        shape = (-1, *[1] * (self.values.ndim - 1))
        return Stack(self.names, self.values * self.values.new_tensor(scales).view(shape))


@dataclass(frozen=True)
class Products:
    """Matrices s A Bᵀ, whose factors have the same shapes.

    Attributes:
        names: Name of each.
        a: A, (n, out, r).
        b: B, (n, in, r).
        scales: s of each.
        transposed: Whether the model stores the matrices s B Aᵀ instead.
    """

    names: Sequence[Name]
    a: Tensor
    b: Tensor
    scales: Sequence[float]
    transposed: bool

    def dense(self) -> Stack[Name]:
        """Multiply the factors."""
        products = Stack(self.names, self.a).scaled(self.scales).values @ self.b.mT
        return Stack(self.names, products.mT.contiguous() if self.transposed else products)


class Joined(Generic[K]):
    """Tensors that may differ in the number of rows, one after the other.

    Args:
        stacks: The tensors, (n, rows, ...).

    Attributes:
        names: Name of each.
        sizes: Number of rows of each.
        rows: The rows of all tensors, (R, ...).
    """

    def __init__(self, stacks: Iterable[Stack[K]]) -> None:
        ordered = sorted(stacks, key=lambda stack: stack.values.shape[1])
        self.names = [name for stack in ordered for name in stack.names]
        self.sizes = [stack.values.shape[1] for stack in ordered for _ in stack.names]
        self.rows = torch.cat([stack.values.flatten(0, 1) for stack in ordered])

    def map(self, function: Callable[[Tensor], Tensor]) -> "Joined[K]":
        """Replace the rows, (R, ...), by a function of them."""
        mapped = object.__new__(Joined)
        mapped.names, mapped.sizes, mapped.rows = self.names, self.sizes, function(self.rows)
        return mapped

    def split(self) -> dict[K, Tensor]:
        """The tensors by name, as views."""
        return dict(zip(self.names, self.rows.split(self.sizes), strict=True))


@dataclass(frozen=True)
class Predicted:
    """All parameters of several networks.

    Attributes:
        dense: Matrices and kernels.
        products: Matrices that are predicted as products of factors.
        vectors: Vectors.
    """

    dense: Sequence[Stack[Name]]
    products: Sequence[Products]
    vectors: Sequence[Joined[Name]]

    @cached_property
    def factors(self) -> Joined[tuple[Name, int]]:
        """The factors s A (side 0) and B (side 1) of all products."""
        stacks: list[Stack[tuple[Name, int]]] = []
        for product in self.products:
            stacks.append(Stack([(name, 0) for name in product.names], product.a))
            stacks.append(Stack([(name, 1) for name in product.names], product.b))
        joined = Joined(stacks)
        scales = {
            (name, 0): s for product in self.products for name, s in zip(product.names, product.scales, strict=True)
        }
        of_rows = np.repeat([scales.get(name, 1.0) for name in joined.names], joined.sizes)
        return joined.map(lambda rows: rows * torch.from_numpy(of_rows).to(rows)[:, None])

    def by_name(self, count: int, dense: bool) -> list[dict[str, Tensor]]:
        """The parameters of each of so many networks by name.

        Args:
            count: Number of networks.
            dense: False keeps products as :class:`~lgx.hypernet.low_rank_tensor.LowRankTensor`.
        """
        tensors: dict[Name, Tensor] = {}
        for stack in (*self.dense, *(product.dense() for product in self.products if dense)):
            tensors.update(zip(stack.names, stack.values.unbind(), strict=True))
        for joined in self.vectors:
            tensors.update(joined.split())
        if self.products and not dense:
            tensors.update(self._low_rank_tensors(tensors))
        networks: list[dict[str, Tensor]] = [{} for _ in range(count)]
        for (network, name), tensor in tensors.items():
            networks[network][name] = tensor
        return networks

    def _low_rank_tensors(self, vectors: Mapping[Name, Tensor]) -> Iterator[tuple[Name, Tensor]]:
        """The products by name.

        The rank is padded to a multiple of 16, because products with other sizes are a tenth slower. The first
        additional column of A holds the bias of the same layer, so that the product with A adds it.
        """
        factors, ones = self.factors, None
        biases: dict[Name, Tensor | None] = {}
        rank = factors.rows.shape[1]
        if rank % 16:
            biases = {
                name: vectors.get((name[0], name[1].removesuffix("weight") + "bias")) for name, _ in factors.names
            }
            zeros = factors.rows.new_zeros(len(factors.rows), -rank % 16)
            column = []
            for (name, side), size in zip(factors.names, factors.sizes, strict=True):
                bias = biases[name] if side == 0 else None
                column.append(zeros[:size, 0] if bias is None else bias)
            factors = factors.map(lambda rows: torch.cat([rows, torch.cat(column)[:, None], zeros[:, 1:]], dim=1))
            ones = factors.rows.new_zeros(factors.rows.shape[1])
            ones[rank] = 1
        split = factors.split()
        for product in self.products:
            for name in product.names:
                a, b = split[name, 0], split[name, 1]
                left, right = (b, a) if product.transposed else (a, b)
                yield name, LowRankTensor(left, right.T, biases.get(name), ones)

    def sum_of_norms(self) -> Tensor:
        """Σ ‖W‖_F over all parameters, a scalar in float32 or float64. The gradient of a zero norm is zero."""
        sizes = [joined.sizes for joined in self.vectors]
        vectors = [joined.rows for joined in self.vectors]
        total: Tensor = _SumOfNorms.apply(sizes, *vectors, *(stack.values for stack in self.dense))
        if self.products:
            places = {name: place for place, name in enumerate(self.factors.names)}
            partners = [places[name, 1 - side] for name, side in self.factors.names]
            products: Tensor = _SumOfProductNorms.apply(self.factors.sizes, partners, self.factors.rows)
            total = total + products
        return total


class _SumOfNorms(torch.autograd.Function):
    """Sum of the Frobenius norms of vectors and of stacked tensors."""

    @staticmethod
    def forward(ctx: Any, sizes: Sequence[Sequence[int]], *tensors: Tensor) -> Tensor:
        """Numbers of joined vectors of these sizes, (R,), and stacks, (n, ...) -> scalar."""
        parts = [_wide(rows).split(of_rows) for rows, of_rows in zip(tensors, sizes, strict=False)]
        parts += [_wide(stack).unbind() for stack in tensors[len(sizes) :]]
        norms = torch.stack(torch._foreach_norm([tensor for part in parts for tensor in part]))
        ctx.save_for_backward(norms, *tensors)
        ctx.sizes, ctx.counts = sizes, [len(part) for part in parts]
        return norms.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of the tensors, in their shapes."""
        norms, *tensors = ctx.saved_tensors
        shares = list(_share(gradient, norms).split(ctx.counts))
        for i, sizes in enumerate(ctx.sizes):
            repeats = torch.tensor(sizes, device=norms.device)
            shares[i] = shares[i].repeat_interleave(repeats, output_size=len(tensors[i]))
        of_tensors = [
            (_wide(tensor) * share.view(-1, *[1] * (tensor.ndim - 1))).to(tensor.dtype)
            for tensor, share in zip(tensors, shares, strict=True)
        ]
        return None, *of_tensors


class _SumOfProductNorms(torch.autograd.Function):
    """Sum of the Frobenius norms of products A Bᵀ, each of which is sqrt(tr((Aᵀ A)(Bᵀ B))).

    The backward pass reuses the Gram matrices, which halves the work of autograd's own backward pass.
    """

    @staticmethod
    def forward(ctx: Any, sizes: Sequence[int], partners: Sequence[int], rows: Tensor) -> Tensor:
        """Joined rows of factors, (R, r), of these sizes; each is multiplied by its partner -> scalar."""
        ctx.runs = [(len(list(run)), size) for size, run in groupby(sizes)]
        with torch.autocast(rows.device.type, enabled=False):
            grams = torch.cat([part.mT @ part for part in _equal_sizes(_wide(rows), ctx.runs)])
        of_partners = grams[partners]
        norms = (grams * of_partners).sum((1, 2)).clamp(min=0).sqrt()  # of each product, at both of its factors
        ctx.save_for_backward(rows, norms, of_partners)
        return norms.sum() / 2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradient of the rows, (R, r)."""
        rows, norms, of_partners = ctx.saved_tensors
        weighted = of_partners * _share(gradient, norms)[:, None, None]
        wide = _wide(rows)
        of_rows = torch.empty_like(wide)
        parts = zip(_equal_sizes(wide, ctx.runs), _equal_sizes(of_rows, ctx.runs), strict=True)
        with torch.autocast(rows.device.type, enabled=False):
            for (part, out), gram in zip(parts, weighted.split([count for count, _ in ctx.runs]), strict=True):
                torch.bmm(part, gram, out=out)
        return None, None, of_rows.to(rows.dtype)


def _equal_sizes(rows: Tensor, runs: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Split rows, (R, r), into runs of neighbors with equally many rows, (count, size, r)."""
    parts = rows.split([count * size for count, size in runs])
    return [part.view(*run, -1) for part, run in zip(parts, runs, strict=True)]


def _share(gradient: Tensor, norms: Tensor) -> Tensor:
    """Gradient of the sum, a scalar, divided by each norm, (N,); finite where a norm is zero."""
    return gradient / norms.clamp(min=torch.finfo(norms.dtype).tiny ** 0.75)


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()
