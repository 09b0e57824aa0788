"""Predicted parameters of several networks, joined so that few operations scale, split and measure them.

A GPU computes an operation on a single parameter faster than a CPU starts it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lgx.hypernet.low_rank_tensor import LowRankTensor, WideFactors

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


@dataclass(frozen=True)
class Joined(Generic[K]):
    """Tensors that differ in the number of rows, one after the other.

    Attributes:
        names: Name of each.
        rows: The rows of all tensors, (R, ...).
        runs: (count, rows) of neighbors with equally many rows.
    """

    names: Sequence[K]
    rows: Tensor
    runs: Sequence[tuple[int, int]]

    @classmethod
    def join(cls, stacks: Sequence[Stack[K]]) -> "Joined[K]":
        """Join stacks, (n, rows, ...), by increasing number of rows."""
        stacks = sorted(stacks, key=_size)
        runs = [(sum(len(stack.names) for stack in group), size) for size, group in groupby(stacks, _size)]
        rows = torch.cat([stack.values.flatten(0, 1) for stack in stacks])
        return cls([name for stack in stacks for name in stack.names], rows, runs)

    @property
    def sizes(self) -> list[int]:
        """Number of rows of each tensor."""
        return [size for count, size in self.runs for _ in range(count)]

    def split(self) -> dict[K, Tensor]:
        """The tensors by name, as views."""
        return dict(zip(self.names, self.rows.split(self.sizes), strict=True))


def _size(stack: Stack[Any]) -> int:
    return stack.values.shape[1]


@dataclass(frozen=True)
class Predicted:
    """All parameters of several networks.

    Attributes:
        dense: Matrices and kernels.
        vectors: Vectors.
        factors: Factors A (side 0) and B (side 1) of low-rank products A Bᵀ; None without products.
        transposed: Names of the matrices B Aᵀ.
    """

    dense: Sequence[Stack[Name]]
    vectors: Sequence[Joined[Name]]
    factors: Joined[tuple[Name, int]] | None = None
    transposed: Set[Name] = frozenset()

    def by_name(self, count: int) -> list[dict[str, Tensor]]:
        """The parameters of each of so many networks by name; products as :class:`LowRankTensor`."""
        tensors: dict[Name, Tensor] = {}
        for stack in self.dense:
            tensors.update(zip(stack.names, stack.values.unbind(), strict=True))
        for joined in self.vectors:
            tensors.update(joined.split())
        if self.factors is not None:
            tensors.update(_products(self.factors, self.transposed, tensors))
        networks: list[dict[str, Tensor]] = [{} for _ in range(count)]
        for (network, name), tensor in tensors.items():
            networks[network][name] = tensor
        return networks

    def sum_of_norms(self) -> Tensor:
        """Σ ‖W‖_F over all parameters, a scalar in float32 or float64. The gradient of a zero norm is zero."""
        others = [(joined.rows, joined.runs) for joined in self.vectors]
        others += [(stack.values.flatten(), [(len(stack.values), stack.values[0].numel())]) for stack in self.dense]
        runs = [runs for _, runs in others]
        if self.factors is None:
            return cast(Tensor, _Norms.apply(runs, [], [], None, *(rows for rows, _ in others))).sum()
        place = {name: i for i, name in enumerate(self.factors.names)}
        partners = [place[name, 1 - side] for name, side in self.factors.names]
        norms: Tensor = _Norms.apply(runs, self.factors.runs, partners, self.factors.rows, *(rows for rows, _ in others))
        return norms.sum()


def _products(
    factors: Joined[tuple[Name, int]], transposed: Set[Name], vectors: Mapping[Name, Tensor]
) -> Iterator[tuple[Name, Tensor]]:
    """The matrices by name.

    The rank is padded to a multiple of 16, because products with other sizes are a tenth slower. The first additional
    column of A holds the bias of the same layer.
    """
    rank = factors.rows.shape[1]
    padding = -rank % 16
    biases = {name: vectors.get((name[0], name[1].removesuffix("weight") + "bias")) for name, _ in factors.names}
    wide, unit = factors.rows, None
    if padding:
        empty = wide.new_zeros(max(factors.sizes))
        columns = [empty[:size] if side or biases[name] is None else biases[name] for (name, side), size in zip(factors.names, factors.sizes, strict=True)]
        wide = torch.cat([wide, torch.cat(columns)[:, None], wide.new_zeros(len(wide), padding - 1)], dim=1)
        unit = wide.new_zeros(rank + padding)
        unit[rank] = 1
    split = Joined(factors.names, wide, factors.runs).split()
    for name, side in factors.names:
        if side == 0:
            a, b = split[name, 0], split[name, 1]
            yield name, LowRankTensor.of_rows(a, b, rank, name in transposed, biases[name], unit)
