"""Predicted parameters of several networks, joined so that few operations scale, split and measure them.

A GPU computes an operation on a single parameter faster than a CPU starts it. Shapes: n parameters, r rank.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lgx.hypernet.low_rank_tensor import LowRankTensor, dense_is_faster

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

    def is_slow(self, inputs: int) -> bool:
        """Whether so many vectors are multiplied faster by the matrices than by their factors."""
        return dense_is_faster(inputs, self.a.shape[1], self.b.shape[1], self.a.shape[2])

    def dense(self) -> Stack[Name]:
        """Multiply the factors."""
        products = Stack(self.names, self.a).scaled(self.scales).values @ self.b.mT
        return Stack(self.names, products.mT.contiguous() if self.transposed else products)


class Joined(Generic[K]):
    """Tensors that may differ in the number of rows, one after the other.

    Args:
        stacks: The tensors, (n, rows, ...).

    Attributes:
        groups: Names of the tensors of each stack, and number of rows of each; by increasing number of rows.
        rows: The rows of all tensors, (R, ...).
    """

    def __init__(self, stacks: Iterable[Stack[K]]) -> None:
        ordered = sorted(stacks, key=lambda stack: stack.values.shape[1])
        self.groups = [(stack.names, stack.values.shape[1]) for stack in ordered]
        self.rows = torch.cat([stack.values.flatten(0, 1) for stack in ordered])

    @property
    def names(self) -> list[K]:
        """Name of each tensor."""
        return [name for names, _ in self.groups for name in names]

    @property
    def sizes(self) -> list[int]:
        """Number of rows of each tensor."""
        return [size for names, size in self.groups for _ in names]

    def map(self, function: Callable[[Tensor], Tensor]) -> "Joined[K]":
        """Replace the rows, (R, ...), by a function of them."""
        mapped = copy(self)
        mapped.rows = function(self.rows)
        return mapped

    def repeat(self, values: Sequence[float]) -> Tensor:
        """Repeat the value of each tensor for its rows, (R,)."""
        dtype = np.float64 if self.rows.dtype == torch.float64 else np.float32
        return torch.from_numpy(np.repeat(np.array(values, dtype), self.sizes)).to(self.rows)

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
    vectors: Joined[Name]

    @cached_property
    def factors(self) -> Joined[tuple[Name, int]]:
        """The factors s A (side 0) and B (side 1) of all products."""
        stacks: list[Stack[tuple[Name, int]]] = []
        scales: dict[tuple[Name, int], float] = {}
        for product in self.products:
            stacks.append(Stack([(name, 0) for name in product.names], product.a))
            stacks.append(Stack([(name, 1) for name in product.names], product.b))
            scales.update(zip(stacks[-2].names, product.scales, strict=True))
        joined = Joined(stacks)
        of_rows = joined.repeat([scales.get(name, 1.0) for name in joined.names])
        return joined.map(lambda rows: rows.mul_(of_rows[:, None]))

    def by_name(self, count: int, inputs: int | None = None) -> list[dict[str, Tensor]]:
        """The parameters of each of so many networks by name.

        Args:
            count: Number of networks.
            inputs: Vectors that a layer multiplies: products that are slower than the matrix for so many stay
                :class:`~lgx.hypernet.low_rank_tensor.LowRankTensor`. None multiplies all factors.
        """
        vectors = self.vectors.split()
        tensors = dict(vectors)
        dense = [*self.dense, *(product.dense() for product in self.products if inputs is None)]
        if self.products and inputs is not None:
            products, low_rank = self._executable(inputs, vectors)
            dense += products
            tensors.update(low_rank)
        for stack in dense:
            tensors.update(zip(stack.names, stack.values.unbind(), strict=True))
        networks: list[dict[str, Tensor]] = [{} for _ in range(count)]
        for (network, name), tensor in tensors.items():
            networks[network][name] = tensor
        return networks

    def _executable(
        self, inputs: int, vectors: Mapping[Name, Tensor]
    ) -> tuple[list[Stack[Name]], dict[Name, LowRankTensor]]:
        """The products with so many vectors: those that are faster as matrices, and the others by name."""
        whole = {name for product in self.products if product.is_slow(inputs) for name in product.names}
        biases: dict[Name, Tensor] = {}
        for network, name in {name for name, _ in self.factors.names} - whole:
            bias = vectors.get((network, name.removesuffix("weight") + "bias"))
            if bias is not None:
                biases[network, name] = bias
        rows, ones = self._padded(biases)
        keys: list[tuple[Name, int]] = []
        sizes: list[int] = []
        for names, size in self.factors.groups:
            is_whole = names[0][0] in whole
            keys += names[:1] if is_whole else names
            sizes += [len(names) * size] if is_whole else [size] * len(names)
        factors = dict(zip(keys, rows.split(sizes), strict=True))
        dense, low_rank = [], {}
        for product in self.products:
            count = len(product.names)
            if product.names[0] in whole:
                a, b = (factors[product.names[0], side].unflatten(0, (count, -1)) for side in (0, 1))
                dense.append(replace(product, a=a, b=b, scales=[1.0]).dense())
                continue
            for each in product.names:
                left, right = factors[each, int(product.transposed)], factors[each, int(not product.transposed)]
                low_rank[each] = LowRankTensor(left, right.T, biases.get(each) if ones is not None else None, ones)
        return dense, low_rank

    def _padded(self, biases: Mapping[Name, Tensor]) -> tuple[Tensor, Tensor | None]:
        """Pad the rank to a multiple of 16, because products with other sizes are a tenth slower.

        Args:
            biases: Biases of layers; the first additional column of A holds them, so that the product with A adds them.

        Returns:
            The rows of all factors, and a row that is 1 in that column alone; None without padding.
        """
        rows, rank = self.factors.rows, self.factors.rows.shape[1]
        if rank % 16 == 0:
            return rows, None
        zeros = rows.new_zeros(len(rows), -rank % 16)
        column = [
            biases[name] if side == 0 and name in biases else zeros[:size, 0]
            for (name, side), size in zip(self.factors.names, self.factors.sizes, strict=True)
        ]
        padded = torch.cat([rows, torch.cat(column)[:, None], zeros[:, 1:]], dim=1)
        return padded, torch.from_numpy(np.arange(padded.shape[1]) == rank).to(padded)

    def sum_of_norms(self) -> Tensor:
        """Σ ‖W‖_F over all parameters, a scalar in float32 or float64. The gradient of a zero norm is zero."""
        stacks = [stack.values for stack in self.dense]
        total: Tensor = _SumOfNorms.apply(self.vectors.sizes, self.vectors.rows, *stacks)
        if self.products:
            places = {name: place for place, name in enumerate(self.factors.names)}
            partners = [places[name, 1 - side] for name, side in self.factors.names]
            products: Tensor = _SumOfProductNorms.apply(self.factors.sizes, partners, self.factors.rows)
            total = total + products
        return total


class _SumOfNorms(torch.autograd.Function):
    """Sum of the Frobenius norms of vectors and of stacked tensors."""

    @staticmethod
    def forward(ctx: Any, sizes: Sequence[int], vectors: Tensor, *stacks: Tensor) -> Tensor:
        """Numbers of vectors of these sizes, (R,), and stacks, (n, ...) -> scalar."""
        parts = [_wide(vectors).split(sizes), *(_wide(stack).unbind() for stack in stacks)]
        norms = torch.stack(torch._foreach_norm(list(chain(*parts))))
        ctx.save_for_backward(norms, vectors, *stacks)
        ctx.sizes = sizes
        return norms.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of the vectors and the stacks, in their shapes."""
        norms, vectors, *stacks = ctx.saved_tensors
        shares = _share(gradient, norms).split([len(ctx.sizes), *map(len, stacks)])
        repeats = torch.tensor(ctx.sizes, device=norms.device)
        scales = [shares[0].repeat_interleave(repeats, output_size=len(vectors))]
        for stack, share in zip(stacks, shares[1:], strict=True):
            scales.append(share.view(-1, *[1] * (stack.ndim - 1)))
        of_tensors = [(_wide(t) * scale).to(t.dtype) for t, scale in zip((vectors, *stacks), scales, strict=True)]
        return None, *of_tensors


class _SumOfProductNorms(torch.autograd.Function):
    """Sum of the Frobenius norms of products A Bᵀ, each of which is sqrt(tr((Aᵀ A)(Bᵀ B))).

    The backward pass reuses the Gram matrices, which halves the work of autograd's own backward pass.
    """

    @staticmethod
    def forward(ctx: Any, sizes: Sequence[int], partners: Sequence[int], rows: Tensor) -> Tensor:
        """Sum the norms.

        Args:
            ctx: Autograd's context.
            sizes: Number of rows of each factor, in increasing order.
            partners: Index of the factor with which each is multiplied.
            rows: Rows of all factors, (R, r).

        Returns:
            Scalar.
        """
        ctx.shapes = [(len(list(run)), size) for size, run in groupby(sizes)]
        with torch.autocast(rows.device.type, enabled=False):
            grams = torch.cat([part.mT @ part for part in _of_shapes(_wide(rows), ctx.shapes)])
        of_partners = grams[partners]
        norms = (grams * of_partners).sum((1, 2)).clamp(min=0).sqrt()  # of each product, at both of its factors
        ctx.save_for_backward(rows, norms, of_partners)
        return norms.sum() / 2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradient of the rows, (R, r)."""
        rows, norms, of_partners = ctx.saved_tensors
        weighted = (of_partners * _share(gradient, norms)[:, None, None]).split([count for count, _ in ctx.shapes])
        wide = _wide(rows)
        of_rows = torch.empty_like(wide)
        parts = zip(_of_shapes(wide, ctx.shapes), weighted, _of_shapes(of_rows, ctx.shapes), strict=True)
        with torch.autocast(rows.device.type, enabled=False):
            for part, gram, out in parts:
                torch.bmm(part, gram, out=out)
        return None, None, of_rows.to(rows.dtype)


def _of_shapes(rows: Tensor, shapes: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Split rows, (R, r), into (count, size, r)."""
    parts = rows.split([count * size for count, size in shapes])
    return [part.view(*shape, -1) for part, shape in zip(parts, shapes, strict=True)]


def _share(gradient: Tensor, norms: Tensor) -> Tensor:
    """Gradient of the sum, a scalar, divided by each norm, (N,); finite where a norm is zero."""
    return gradient / norms.clamp(min=torch.finfo(norms.dtype).tiny ** 0.75)


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()
