"""The official factor layout: a linear map's output viewed as rows of another length.

The map r -> size is applied to inputs m of r numbers; the outputs lie one behind the other and are *viewed* as rows of
r numbers: row i of the view is made of the flat elements i r ... (i + 1) r - 1. Readers want spans of viewed rows, or
such a span times one vector. They need no more of the map than their span covers, and those that need the same part go
through it together: the map is large, and reading it is what costs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lgx.hypernet.parts import ThroughParts

Span = tuple[int, int]
"""Viewed rows: (first, count)."""

Mixed = dict[int, Tensor]
"""The inputs m that a reader's spans need, (n, r) each, by their numbers."""


@dataclass(frozen=True)
class Piece:
    """A run of the map's output that a span covers.

    Attributes:
        row: Which of the inputs m it comes from.
        columns: (first, behind the last) column of the map's output.
        offset: Where in a viewed row it begins.
    """

    row: int
    columns: tuple[int, int]
    offset: int

    @property
    def size(self) -> int:
        """Number of columns."""
        return self.columns[1] - self.columns[0]


class View:
    """A map and what some readers want of it.

    Args:
        layer: The map, r -> size.
    """

    def __init__(self, layer: nn.Linear) -> None:
        self.rank, self.size, self._layer = layer.in_features, layer.out_features, layer

    def rows(self, reads: Sequence[tuple[Mixed, Span]]) -> list[Tensor]:
        """Viewed rows.

        Args:
            reads: Of each reader its inputs m and the span that it wants.

        Returns:
            (n, count, r) each.
        """
        wanted = [[(piece, mixed[piece.row]) for piece in self._pieces(span)] for mixed, span in reads]
        return [
            (torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]).view(-1, span[1], self.rank)
            for parts, (_, span) in zip(self._through(wanted), reads, strict=True)
        ]

    def products(self, reads: Sequence[tuple[Mixed, Span, Tensor]]) -> list[Tensor]:
        """Viewed rows times a vector b, without forming the rows.

        With W and c the map's weight and bias, row i is Σ_jk W_ijk b_j m_k + Σ_j c_ij b_j.

        Args:
            reads: Of each reader its inputs m, the span that it wants, and b, (n, r).

        Returns:
            (n, count) each.
        """
        wanted = []
        for mixed, span, b in reads:
            cut = self._pieces(span, whole=True)
            joined = {row: torch.cat([mixed[row], b], dim=1) for row in {p.row for p in cut}}
            wanted.append([(p, joined[p.row] if self._is_whole(p) else mixed[p.row]) for p in cut])
        results = []
        for parts, request, (*_, b) in zip(self._through(wanted), wanted, reads, strict=True):
            values: list[Tensor] = []
            for (piece, _), part in zip(request, parts, strict=True):
                if self._is_whole(piece):
                    values.append(part)
                    continue
                share = (part * b[:, piece.offset : piece.offset + piece.size]).sum(dim=1, keepdim=True)
                if piece.offset == 0:
                    values.append(share)
                else:  # the row's other share lies at the end of the map's previous output
                    values[-1] = values[-1] + share
            results.append(torch.cat(values, dim=1))
        return results

    def _is_whole(self, piece: Piece) -> bool:
        return piece.size % self.rank == 0

    def _through(self, wanted: Sequence[Sequence[tuple[Piece, Tensor]]]) -> list[list[Tensor]]:
        """Send inputs through their parts of the map, all inputs of a part at once.

        Inputs m go through the map itself, inputs (m, b) of 2 r numbers through its whole viewed rows.
        """
        queues: dict[tuple[tuple[int, int], int], list[Tensor]] = {}
        places: list[list[tuple[tuple[tuple[int, int], int], int]]] = []
        for request in wanted:
            places.append([])
            for piece, value in request:
                queue = queues.setdefault((piece.columns, value.shape[1]), [])
                places[-1].append(((piece.columns, value.shape[1]), len(queue)))
                queue.append(value)
        inputs = [torch.cat(queue) for queue in queues.values()]
        outs = ThroughParts.apply(self._layer.weight, self._layer.bias, [columns for columns, _ in queues], *inputs)
        done = {
            key: out.split([len(value) for value in queue])
            for (key, queue), out in zip(queues.items(), outs, strict=True)
        }
        return [[done[key][i] for key, i in place] for place in places]

    def _pieces(self, span: Span, whole: bool = False) -> list[Piece]:
        """Cut a span where the map ends; if ``whole``, also into whole viewed rows and parts of single ones."""
        cut, at, stop = [], span[0] * self.rank, sum(span) * self.rank
        while at < stop:
            row, column = divmod(at, self.size)
            offset, count = at % self.rank, min(self.size - column, stop - at)
            if whole:
                fits = offset == 0 and count >= self.rank
                count = count // self.rank * self.rank if fits else min(self.rank - offset, count)
            cut.append(Piece(row, (column, column + count), offset))
            at += count
        return cut
