"""A linear layer of which only slices of the output are computed.

The low-rank decoder has a large linear layer and needs a small slice of its output for most targets.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

MIN_BLOCK_SIZE = 2048
"""Fewest outputs between two block boundaries on a CPU. Measured: smaller blocks cost more time than they save."""

Span = tuple[int, int]
"""(start, stop)."""


@dataclass(frozen=True)
class OutputSlice:
    """A slice of the flattened output of a linear layer in -> out.

    Attributes:
        inputs: (n, rows, in).
        start: First index of the slice in the flattened output of rows * out numbers.
        stop: Index after the last.
    """

    inputs: Tensor
    start: int
    stop: int


def sliced_linear(layer: nn.Linear, slices: Sequence[OutputSlice]) -> list[Tensor]:
    """Compute slices of a linear layer's output for several inputs.

    Reading the layer's weight takes most of the time. Slices that need the same outputs are therefore computed
    together, and all gradients are added to one tensor of the weight's size. With ordinary indexing each slice would
    create a gradient of that size, mostly zeros.

    Args:
        layer: The layer, in -> out, with a bias.
        slices: Inputs, and which slice of their output to compute.

    Returns:
        For each slice ``layer(inputs).flatten(1)[:, start:stop]``, (n, stop - start).
    """
    spans = [(part.start, part.stop) for part in slices]
    outputs: tuple[Tensor, ...] = _SlicedLinear.apply(layer.weight, layer.bias, spans, *(s.inputs for s in slices))
    return list(outputs)


class _SlicedLinear(torch.autograd.Function):
    """See :func:`sliced_linear`."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor, spans: Sequence[Span], *inputs: Tensor) -> tuple[Tensor, ...]:
        """Compute the slices.

        Args:
            ctx: Autograd's context.
            weight: (out, in).
            bias: (out,).
            spans: (start, stop) of each slice.
            *inputs: (n, rows, in) of each slice.

        Returns:
            (n, stop - start) for each slice.
        """
        ctx.save_for_backward(weight, bias, *inputs)
        # On a GPU one pass over the weight is faster than many small products.
        ctx.blocks, ctx.widths = _blocks(spans, len(weight), MIN_BLOCK_SIZE if weight.is_cpu else len(weight))
        outs = [x.new_empty(len(x), stop - start) for x, (start, stop) in zip(inputs, spans, strict=True)]
        rows, views = _unbind(inputs), _piece_views(outs, ctx.widths)
        for (start, stop), pieces in ctx.blocks.items():
            joined = torch.cat([rows[piece.slice][piece.row] for piece in pieces])
            computed = torch.addmm(bias[start:stop], joined, weight[start:stop].T)
            for piece, out in zip(pieces, _split(computed, pieces, inputs), strict=True):
                views[piece.slice][piece.index].copy_(out)
        return tuple(outs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of weight, bias and inputs, in their shapes."""
        weight, bias, *inputs = ctx.saved_tensors
        of_weight, of_bias, *of_inputs = (torch.zeros_like(t) for t in (weight, bias, *inputs))
        rows, of_rows, views = _unbind(inputs), _unbind(of_inputs), _piece_views(gradients, ctx.widths)
        for (start, stop), pieces in ctx.blocks.items():
            joined = torch.cat([rows[piece.slice][piece.row] for piece in pieces])
            gradient = torch.cat([views[piece.slice][piece.index] for piece in pieces])
            of_weight[start:stop].addmm_(gradient.T, joined)
            of_bias[start:stop] += gradient.sum(dim=0)
            of_joined = gradient @ weight[start:stop]
            for piece, of_row in zip(pieces, _split(of_joined, pieces, inputs), strict=True):
                of_rows[piece.slice][piece.row].add_(of_row)
        return of_weight, of_bias, None, *of_inputs


@dataclass(frozen=True)
class _Piece:
    """The part of a slice that lies in one block of outputs.

    Attributes:
        slice: Index of the slice.
        row: Row of its inputs.
        index: Index among the pieces of the slice.
    """

    slice: int
    row: int
    index: int


def _blocks(spans: Sequence[Span], size: int, least: int) -> tuple[dict[Span, list[_Piece]], list[list[int]]]:
    """Cut slices into pieces at boundaries of other slices, so that pieces with the same outputs form a block.

    Args:
        spans: (start, stop) of each slice.
        size: Number of outputs of the layer.
        least: Fewest outputs between two boundaries; boundaries that are closer are skipped.

    Returns:
        The pieces of each block (start, stop), and for each slice the widths of its pieces.
    """
    runs = [(i, *run) for i, span in enumerate(spans) for run in _runs(*span, size)]
    boundaries: list[int] = []
    for boundary in sorted({end for _, _, *ends in runs for end in ends}):
        if not boundaries or boundary - boundaries[-1] >= least:
            boundaries.append(boundary)
    blocks: dict[Span, list[_Piece]] = defaultdict(list)
    widths: list[list[int]] = [[] for _ in spans]
    for i, row, start, stop in runs:
        for first, last in pairwise([start, *(b for b in boundaries if start < b < stop), stop]):
            blocks[first, last].append(_Piece(i, row, len(widths[i])))
            widths[i].append(last - first)
    return blocks, widths


def _runs(start: int, stop: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Cut a span of the flattened output at the ends of rows: (row, first output, output after the last)."""
    for row in range(start // size, -(-stop // size)):
        yield row, max(start - row * size, 0), min(stop - row * size, size)


def _unbind(inputs: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
    """The rows, (n, in) each, of every input (n, rows, in)."""
    return [x.unbind(1) for x in inputs]


def _piece_views(slices: Sequence[Tensor], widths: Sequence[Sequence[int]]) -> list[Sequence[Tensor]]:
    """Views (n, width) of the pieces of every slice (n, stop - start)."""
    return [part.split(list(own), dim=1) for part, own in zip(slices, widths, strict=True)]


def _split(joined: Tensor, pieces: Sequence[_Piece], inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    """The rows of each piece, (n, ...), in what was computed for all of them, (Σ n, ...)."""
    return cast(Sequence[Tensor], joined.split([len(inputs[piece.slice]) for piece in pieces]))
