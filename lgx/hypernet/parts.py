"""Parts of what a large linear map gives of some inputs, without the rest."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LEAST_CELL = 2048
"""Narrower parts of a map, in columns, are not worth the steps that they cost; measured."""


@dataclass(frozen=True)
class Part:
    """A part of what a map in -> out gives of inputs, whose outputs lie one behind the other.

    Attributes:
        inputs: (n, rows, in).
        start: First number of the part, among rows * out.
        stop: Behind its last number.
    """

    inputs: Tensor
    start: int
    stop: int


def through_parts(layer: nn.Linear, parts: Sequence[Part]) -> list[Tensor]:
    """Of each part ``layer(inputs).flatten(1)[:, start:stop]``, (n, stop - start).

    The map is large, and reading it is what costs. Parts that need the same columns go through them together, and
    their gradients gather in one tensor: an ordinary slice gets a gradient of the whole map's size, mostly zeros, for
    every use.
    """
    spans = [(part.start, part.stop) for part in parts]
    read: tuple[Tensor, ...] = _ThroughParts.apply(layer.weight, layer.bias, spans, *(part.inputs for part in parts))
    return list(read)


class _ThroughParts(torch.autograd.Function):
    """See :func:`through_parts`."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, bias: Tensor, spans: Sequence[tuple[int, int]], *inputs: Tensor
    ) -> tuple[Tensor, ...]:
        """(out, in), (out,), (start, stop) of each part, its (n, rows, in) -> its (n, stop - start)."""
        ctx.save_for_backward(weight, bias, *inputs)
        ctx.cells, ctx.widths = _cells(spans, len(weight))
        rows = [x.unbind(1) for x in inputs]
        read: list[list[Tensor]] = [[weight] * len(widths) for widths in ctx.widths]
        for (start, stop), pieces in ctx.cells.items():
            joined = torch.cat([rows[piece.part][piece.row] for piece in pieces])
            outs = torch.addmm(bias[start:stop], joined, weight[start:stop].T)
            for piece, out in zip(pieces, _apart(outs, pieces, inputs), strict=True):
                read[piece.part][piece.place] = out
        return tuple(torch.cat(outs, dim=1) for outs in read)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients like weight, bias and the inputs."""
        weight, bias, *inputs = ctx.saved_tensors
        of_weight, of_bias, *of_inputs = (torch.zeros_like(t) for t in (weight, bias, *inputs))
        rows, of_rows = [x.unbind(1) for x in inputs], [x.unbind(1) for x in of_inputs]
        cut = [gradient.split(widths, dim=1) for gradient, widths in zip(gradients, ctx.widths, strict=True)]
        for (start, stop), pieces in ctx.cells.items():
            joined = torch.cat([rows[piece.part][piece.row] for piece in pieces])
            gradient = torch.cat([cut[piece.part][piece.place] for piece in pieces])
            of_weight[start:stop].addmm_(gradient.T, joined)
            of_bias[start:stop] += gradient.sum(dim=0)
            of_joined = gradient @ weight[start:stop]
            for piece, of_row in zip(pieces, _apart(of_joined, pieces, inputs), strict=True):
                of_rows[piece.part][piece.row].add_(of_row)
        return of_weight, of_bias, None, *of_inputs


@dataclass(frozen=True)
class _Piece:
    """A run of a part that one cell's columns give.

    Attributes:
        part: Number of the part.
        row: Which row of its inputs goes through the cell.
        place: Its place among the part's pieces.
    """

    part: int
    row: int
    place: int


def _cells(
    spans: Sequence[tuple[int, int]], size: int
) -> tuple[Mapping[tuple[int, int], list[_Piece]], list[list[int]]]:
    """Of each cell, (first, behind the last) column, the pieces that go through it; of each part its pieces' widths."""
    runs = [(i, *run) for i, span in enumerate(spans) for run in _runs(*span, size)]
    edges: list[int] = []
    for edge in sorted({edge for _, _, *ends in runs for edge in ends}):
        if not edges or edge - edges[-1] >= LEAST_CELL:
            edges.append(edge)
    cells: dict[tuple[int, int], list[_Piece]] = {}
    widths: list[list[int]] = [[] for _ in spans]
    for i, row, start, stop in runs:
        for first, last in pairwise([start, *(edge for edge in edges if start < edge < stop), stop]):
            cells.setdefault((first, last), []).append(_Piece(i, row, len(widths[i])))
            widths[i].append(last - first)
    return cells, widths


def _runs(start: int, stop: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Row, first column and the one behind the last: a span cut where the map's outputs end."""
    for row in range(start // size, -(-stop // size)):
        yield row, max(start - row * size, 0), min(stop - row * size, size)


def _apart(joined: Tensor, pieces: Sequence[_Piece], inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return joined.split([len(inputs[piece.part]) for piece in pieces])
