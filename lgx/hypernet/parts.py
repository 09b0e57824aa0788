"""Parts of what a large linear map gives of some inputs, without the rest."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LEAST_CELL = 2048
"""Columns of a map between two cuts on a CPU; with fewer, steps cost more than they save. Measured."""

Span = tuple[int, int]
"""(start, stop)."""


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
    """Send inputs through a map as far as their parts of its outputs need it.

    The map is large, and reading it is what costs. Parts that need the same columns go through them together, and
    their gradients gather in one tensor: an ordinary slice gets a gradient of the whole map's size, mostly zeros, for
    every use.

    Args:
        layer: The map, in -> out, with a bias.
        parts: What is wanted.

    Returns:
        Of each part ``layer(inputs).flatten(1)[:, start:stop]``, (n, stop - start).
    """
    spans = [(part.start, part.stop) for part in parts]
    read: tuple[Tensor, ...] = _ThroughParts.apply(layer.weight, layer.bias, spans, *(part.inputs for part in parts))
    return list(read)


class _ThroughParts(torch.autograd.Function):
    """See :func:`through_parts`."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor, spans: Sequence[Span], *inputs: Tensor) -> tuple[Tensor, ...]:
        """(out, in), (out,), (start, stop) of each part, its (n, rows, in) -> its (n, stop - start)."""
        ctx.save_for_backward(weight, bias, *inputs)
        # A GPU reads the map sooner than it starts the many small steps that reading it once takes.
        ctx.cells, ctx.widths = _cells(spans, len(weight), LEAST_CELL if weight.is_cpu else len(weight))
        outs = [x.new_empty(len(x), stop - start) for x, (start, stop) in zip(inputs, spans, strict=True)]
        rows, places = _unbind(inputs), _places(outs, ctx.widths)
        for (start, stop), pieces in ctx.cells.items():
            joined = torch.cat([rows[piece.part][piece.row] for piece in pieces])
            out_of_cell = torch.addmm(bias[start:stop], joined, weight[start:stop].T)
            for piece, out in zip(pieces, _split(out_of_cell, pieces, inputs), strict=True):
                places[piece.part][piece.place].copy_(out)
        return tuple(outs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients like weight, bias and the inputs."""
        weight, bias, *inputs = ctx.saved_tensors
        of_weight, of_bias, *of_inputs = (torch.zeros_like(t) for t in (weight, bias, *inputs))
        rows, of_rows, places = _unbind(inputs), _unbind(of_inputs), _places(gradients, ctx.widths)
        for (start, stop), pieces in ctx.cells.items():
            joined = torch.cat([rows[piece.part][piece.row] for piece in pieces])
            gradient = torch.cat([places[piece.part][piece.place] for piece in pieces])
            of_weight[start:stop].addmm_(gradient.T, joined)
            of_bias[start:stop] += gradient.sum(dim=0)
            of_joined = gradient @ weight[start:stop]
            for piece, of_row in zip(pieces, _split(of_joined, pieces, inputs), strict=True):
                of_rows[piece.part][piece.row].add_(of_row)
        return of_weight, of_bias, None, *of_inputs


@dataclass(frozen=True)
class _Piece:
    """What of a part goes through one cell.

    Attributes:
        part: Number of the part.
        row: Which row of its inputs.
        place: Its place among the part's pieces.
    """

    part: int
    row: int
    place: int


def _cells(spans: Sequence[Span], size: int, least: int) -> tuple[dict[Span, list[_Piece]], list[list[int]]]:
    """Cut parts where others begin or end, not at every such edge; pieces of the same columns share a cell.

    Args:
        spans: (start, stop) of each part.
        size: Columns of the map.
        least: Columns from one edge to the next that is cut at.

    Returns:
        The pieces that go through each cell, and of each part its pieces' widths.
    """
    runs = [(i, *run) for i, span in enumerate(spans) for run in _runs(*span, size)]
    edges: list[int] = []
    for edge in sorted({edge for _, _, *ends in runs for edge in ends}):
        if not edges or edge - edges[-1] >= least:
            edges.append(edge)
    cells: dict[Span, list[_Piece]] = defaultdict(list)
    widths: list[list[int]] = [[] for _ in spans]
    for i, row, start, stop in runs:
        for first, last in pairwise([start, *(edge for edge in edges if start < edge < stop), stop]):
            cells[first, last].append(_Piece(i, row, len(widths[i])))
            widths[i].append(last - first)
    return cells, widths


def _runs(start: int, stop: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Cut a span where the map's outputs end: row of the inputs, start and stop among the map's columns."""
    for row in range(start // size, -(-stop // size)):
        yield row, max(start - row * size, 0), min(stop - row * size, size)


def _unbind(inputs: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
    return [x.unbind(1) for x in inputs]


def _places(parts: Sequence[Tensor], widths: Sequence[Sequence[int]]) -> list[Sequence[Tensor]]:
    return [part.split(list(own), dim=1) for part, own in zip(parts, widths, strict=True)]


def _split(joined: Tensor, pieces: Sequence[_Piece], inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    return cast(Sequence[Tensor], joined.split([len(inputs[piece.part]) for piece in pieces]))
