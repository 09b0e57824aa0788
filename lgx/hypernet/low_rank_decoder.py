"""LoGAH's low-rank decoder, and the linear layer of which it computes slices of the output alone.

Shapes: n nodes with the same target, N nodes in all, D embedding width, r rank.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, islice, pairwise
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import torch
from einops import einsum, rearrange
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from lgx.errors import UserError
from lgx.hypernet.decoder import Decoder, Factors, Target

MIN_BLOCK_SIZE = 8192
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
    # On a GPU one pass over the weight is faster than many small products.
    least = MIN_BLOCK_SIZE if layer.weight.is_cpu else len(layer.weight)
    blocks = _blocks([(part.start, part.stop) for part in slices], len(layer.weight), least)
    rows = [part.inputs.unbind(1) if part.inputs.shape[1] > 1 else [part.inputs.flatten(1)] for part in slices]
    inputs = [_cat([rows[piece.slice][piece.row] for piece in pieces], 0) for pieces in blocks.values()]
    outputs: list[dict[int, Tensor]] = [{} for _ in slices]
    for pieces, computed in zip(blocks.values(), sliced_products(layer, list(blocks), inputs), strict=True):
        counts = [len(slices[piece.slice].inputs) for piece in pieces]
        for piece, part in zip(pieces, computed.split(counts), strict=True):
            outputs[piece.slice][piece.start] = part
    return [_cat([parts[start] for start in sorted(parts)], 1) for parts in outputs]


def sliced_products(layer: nn.Linear, spans: Sequence[Span], inputs: Sequence[Tensor]) -> list[Tensor]:
    """Compute the outputs (start, stop) of a linear layer for each input, (n, in) -> (n, stop - start)."""
    return list(_SlicedLinear.apply(layer.weight, layer.bias, spans, *inputs))


class _SlicedLinear(torch.autograd.Function):
    """See :func:`sliced_products`."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor, spans: Sequence[Span], *inputs: Tensor) -> tuple[Tensor, ...]:
        """Compute the slices.

        Args:
            ctx: Autograd's context.
            weight: (out, in).
            bias: (out,).
            spans: (start, stop) of each slice.
            *inputs: (n, in) of each slice.

        Returns:
            (n, stop - start) for each slice.
        """
        ctx.save_for_backward(weight, *inputs)
        ctx.spans = spans
        return tuple(
            torch.addmm(bias[start:stop], x, weight[start:stop].T)
            for x, (start, stop) in zip(inputs, spans, strict=True)
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of weight, bias and inputs, in their shapes."""
        weight, *inputs = ctx.saved_tensors
        of_weight = torch.zeros_like(weight)
        of_bias = weight.new_zeros(len(weight))
        ones = weight.new_ones(max(map(len, inputs)))
        for (start, stop), x, gradient in zip(ctx.spans, inputs, gradients, strict=True):
            of_weight[start:stop].addmm_(gradient.T, x)
            of_bias[start:stop].addmv_(gradient.T, ones[: len(x)])
        of_inputs = [g @ weight[slice(*span)] for span, g in zip(ctx.spans, gradients, strict=True)]
        return of_weight, of_bias, None, *of_inputs


def _cat(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """Concatenate tensors; a single one is not copied."""
    return torch.cat(list(tensors), dim) if len(tensors) > 1 else tensors[0]


class _Piece(NamedTuple):
    """The part of a slice that lies in one block of outputs.

    Attributes:
        slice: Index of the slice.
        row: Row of its inputs.
        start: Where the piece begins in the slice's output.
    """

    slice: int
    row: int
    start: int


def _blocks(spans: Sequence[Span], size: int, least: int) -> dict[Span, list[_Piece]]:
    """Cut slices into pieces at boundaries of other slices, so that pieces with the same outputs form a block.

    Args:
        spans: (start, stop) of each slice.
        size: Number of outputs of the layer.
        least: Fewest outputs between two boundaries; boundaries that are closer are skipped.

    Returns:
        The pieces of each block (start, stop).
    """
    # Slice, row, and the first output and the one after the last within the row.
    runs: list[tuple[int, int, int, int]] = []
    for i, (start, stop) in enumerate(spans):
        for row in range(start // size, -(-stop // size)):
            runs.append((i, row, max(start - row * size, 0), min(stop - row * size, size)))
    boundaries: list[int] = []
    for boundary in sorted({*(start for _, _, start, _ in runs), *(stop for _, _, _, stop in runs)}):
        if not boundaries or boundary - boundaries[-1] >= least:
            boundaries.append(boundary)
    blocks: dict[Span, list[_Piece]] = defaultdict(list)
    for i, row, start, stop in runs:
        for first, last in pairwise([start, *(b for b in boundaries if start < b < stop), stop]):
            blocks[first, last].append(_Piece(i, row, row * size + first - spans[i][0]))
    return blocks


Layout = Literal["official", "aligned"]
"""How the factors are computed; see :class:`LowRankDecoder`."""
_SCALE = 20.0
"""Factor by which the bases of layout ``aligned`` are stored smaller."""


class LowRankDecoder(Decoder):
    """Predicts every weight as a product A Bᵀ of rank r (LoGAH; Zhou et al., 2024).

    An MLP (D -> 4 D -> 8 D -> 2 r²) and a linear map give A (rows × r) and B (columns × r), where rows = out × kernel
    height and columns = in × kernel width. A vector is one column of such a product. Only the rows that a target needs
    are computed.

    The layout decides how the factors are computed from the MLP's output:

    - ``official``: a linear map r -> ``max_size`` is applied to the MLP's output as 2 r rows, and the result is
      *viewed* as A and B. A small target therefore depends on one or two of these rows only. This is "LoGAH" in the
      tables of the papers.
    - ``aligned``: A = L_out (I + X₁) and B = L_in (I + X₂) with two learned bases L, where X₁ and X₂, (r, r), are the
      MLP's output. Every target depends on the whole output. The rows of queries, keys and values are interleaved in A,
      so that a row of L_out has the same role at every width. If they are concatenated, row 70 is a key of a network of
      width 64 and a query of one of width 96, and training on one undoes training on the other. The MLP has GELUs.
      With ReLUs all hidden units were observed to die, and then all nodes get the same matrices. The bases are stored
      divided by 20. The MLP is stable up to a learning rate of about 3e-4, with which bases of full size hardly change.

    With ``vocab_size``, a token embedding has a third basis T, one row for each token, which no other weight uses: it
    is larger than every other weight, and its rows have no order. T (I + X₁) Bᵀ is stored as T (B (I + X₁)ᵀ)ᵀ, so that
    nothing is computed for tokens that do not occur.

    Args:
        width: D.
        rank: r.
        max_shape: Largest (out, in, kernel height, kernel width) that is predicted.
        max_size: Largest number of rows of A or B.
        layout: ``official`` or ``aligned``.
        vocab_size: Number of rows of T; None for no T. Not with layout ``official``.
    """

    def __init__(
        self,
        width: int,
        rank: int,
        max_shape: tuple[int, int, int, int],
        max_size: int,
        layout: Layout = "official",
        vocab_size: int | None = None,
    ) -> None:
        super().__init__()
        self.rank, self.max_shape, self.max_size, self.layout = rank, max_shape, max_size, layout
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, 8 * width)
        self.fc3 = nn.Linear(8 * width, 2 * rank * rank)
        if layout == "official":
            self.basis = nn.Linear(rank, max_size)
        else:
            self.basis_out = nn.Parameter(torch.randn(max_size, rank) * rank**-0.25 / _SCALE)
            self.basis_in = nn.Parameter(torch.randn(max_size, rank) * rank**-0.25 / _SCALE)
            if vocab_size is not None:
                self.basis_tokens = nn.Parameter(torch.randn(vocab_size, rank) * rank**-0.25 / _SCALE)

    def decode(self, x: Tensor, targets: Sequence[Target]) -> list[Tensor | Factors]:
        """See :class:`Decoder`."""
        for target in targets:
            self.check(target)
        activate = F.gelu if self.layout == "aligned" else F.relu
        hidden = activate(self.fc2(activate(self.fc1(x))))  # (N, 8 D)
        return self._official(hidden, targets) if self.layout == "official" else self._aligned(hidden, targets)

    def _aligned(self, hidden: Tensor, targets: Sequence[Target]) -> list[Tensor | Factors]:
        """Layout ``aligned``, from hidden features (N, 8 D)."""
        small = rearrange(self.fc3(hidden), "n (two r s) -> two n r s", two=2, r=self.rank)
        small = _SCALE * (small + torch.eye(self.rank, dtype=small.dtype, device=small.device))
        counts = [target.count for target in targets]
        decoded: list[Tensor | Factors] = []
        for target, x_a, x_b in zip(targets, *(part.split(counts) for part in small), strict=True):
            b = _rows(self.basis_in, _span_b(target), x_b)
            if target.kind == "tokens":  # T as A, and B (I + X₁)ᵀ as B
                tokens = self.basis_tokens[: target.shape[0]].expand(target.count, -1, -1)
                decoded.append(_factors(target, tokens, einsum(b, x_a, "n inp s, n r s -> n inp r")))
                continue
            a = [_rows(self.basis_out, span, x_a) for span in self._spans_a(target)]
            decoded.append(_factors(target, a[0], b) if _is_matrix(target) else _vectors(target, a, b))
        return decoded

    def _official(self, hidden: Tensor, targets: Sequence[Target]) -> list[Tensor | Factors]:
        """Layout ``official``, from hidden features (N, 8 D)."""
        spans = [self._spans_a(target) for target in targets] + [[_span_b(target)] for target in targets]
        wanted = [self._inputs(ranges) for ranges in spans]
        slices: list[OutputSlice] = []
        for m, ranges, (first, _) in zip(self._mixed(hidden, targets, wanted), spans, wanted, strict=True):
            offset = first * self.max_size
            slices += [OutputSlice(m, start * self.rank - offset, stop * self.rank - offset) for start, stop in ranges]
        rows = (rearrange(part, "n (size r) -> n size r", r=self.rank) for part in sliced_linear(self.basis, slices))
        factors = [list(islice(rows, len(ranges))) for ranges in spans]
        return [
            _factors(target, a[0], b) if _is_matrix(target) else _vectors(target, a, b)
            for target, a, (b,) in zip(targets, factors[: len(targets)], factors[len(targets) :], strict=True)
        ]

    def _mixed(self, hidden: Tensor, targets: Sequence[Target], wanted: Sequence[Span]) -> list[Tensor]:
        """Compute the inputs m of the linear map, first for every target's A, then for every target's B.

        Neighboring targets that need the same are computed together; see :meth:`order`.

        Args:
            hidden: Hidden features of the MLP, (N, 8 D).
            targets: The targets of these nodes.
            wanted: For each of these factors (start, stop) of the inputs that it needs, among r.

        Returns:
            (n, stop - start, r) for each factor.
        """
        inputs: list[Tensor] = []
        spans: list[Span] = []
        counts: list[list[int]] = []  # of the nodes of each target in each block
        for offset, half in ((0, wanted[: len(targets)]), (self.rank, wanted[len(targets) :])):
            blocks = [
                (span, [target.count for _, target in block])
                for span, block in groupby(zip(half, targets, strict=True), itemgetter(0))
            ]
            spans += [((offset + first) * self.rank, (offset + last) * self.rank) for (first, last), _ in blocks]
            counts += [count for _, count in blocks]
            inputs += hidden.split([sum(count) for _, count in blocks])
        mixed: list[Tensor] = []
        for count, computed in zip(counts, sliced_products(self.fc3, spans, inputs), strict=True):
            mixed += rearrange(F.relu(computed), "n (inputs r) -> n inputs r", r=self.rank).split(count)
        return mixed

    def order(self, target: Target) -> Any:
        """See :class:`Decoder`."""
        return [self._inputs(spans) for spans in ([_span_b(target)], self._spans_a(target))]

    def _inputs(self, rows: Sequence[Span]) -> Span:
        """The inputs (start, stop) of the linear map, among r, that rows of a factor need.

        Row i of a factor is the range i r ... (i + 1) r - 1 of the map's outputs, of which each input has max_size.
        """
        return rows[0][0] * self.rank // self.max_size, -(-rows[-1][1] * self.rank // self.max_size)

    def _spans_a(self, target: Target) -> list[Span]:
        """Rows (start, stop) of A that a target needs; of a norm those of the weight, then those of the bias.

        The rows of a bias start at the *rounded* size, as in the official code.
        """
        if _is_matrix(target):
            return [(0, target.shape[0] * target.shape[2])]
        size = target.shape[0]
        start = self._rounded(target.shape[0])
        bias = (start, start + size)
        return [(0, size), bias] if target.kind == "norm" else [bias]

    def _rounded(self, size: int) -> int:
        """Round a size as GHN-3 does to group targets."""
        most = self.max_shape[0]
        size = min(size, most)
        if size % 3 == 0:
            size = size * 4 // 3
        return most if size >= most / 2 else size

    def check(self, target: Target) -> None:
        """See :class:`Decoder`."""
        spans = [] if target.kind == "tokens" else self._spans_a(target)
        most = max(stop for _, stop in (*spans, _span_b(target)))
        if most > self.max_size:
            raise UserError(
                f"low-rank decoder: a weight with {most} rows or columns exceeds max_size {self.max_size}; "
                f"use a hypernetwork with a larger max_size"
            )


def _is_matrix(target: Target) -> bool:
    return len(target.shape) == 4


def _span_b(target: Target) -> Span:
    return (0, target.shape[1] * target.shape[3] if _is_matrix(target) else 1)


def _rows(basis: Tensor, span: Span, mixing: Tensor) -> Tensor:
    """Rows of a basis (max_size, r), mixed for each node by (n, r, r): (n, rows, r)."""
    return einsum(basis[slice(*span)], mixing, "rows r, n r s -> n rows s")


def _factors(target: Target, a: Tensor, b: Tensor) -> Factors:
    """Factors (n, rows, r) and (n, columns, r) of a matrix."""
    return Factors(a, b, (target.shape[2], target.shape[3]))


def _vectors(target: Target, a: list[Tensor], b: Tensor) -> Tensor:
    """Multiply (n, size, r) of a bias, or of a norm's weight and of its bias, by (n, 1, r)."""
    vectors = [(rows @ b.mT).squeeze(2) for rows in a]
    return torch.stack(vectors, dim=1) if target.kind == "norm" else vectors[0]
