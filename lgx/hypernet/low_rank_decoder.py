"""LoGAH's low-rank decoder, and the linear layer of which it computes slices of the output alone.

Shapes: n nodes with the same target, N nodes in all, D embedding width, r rank.
"""

from collections.abc import Sequence
from itertools import islice, pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from einops import einsum, rearrange
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from lgx.errors import UserError
from lgx.hypernet.decoder import Decoder, Factors, Target

BLOCKS = 4
"""Blocks of outputs, each computed for the inputs that need it. More of them compute less, in more operations."""

Span = tuple[int, int]
"""(start, stop)."""


class OutputSlice(NamedTuple):
    """A slice of the outputs of a linear layer in -> out for several nodes, each of which has several inputs.

    Attributes:
        nodes: The nodes; those of two slices are the same or all different.
        start: First index of the slice in a node's length * out outputs.
        stop: Index after the last.
    """

    nodes: slice
    start: int
    stop: int


def sliced_linear(layer: nn.Linear, inputs: Tensor, slices: Sequence[OutputSlice]) -> list[Tensor]:
    """Compute slices of a linear layer's output.

    Reading the layer's weight takes most of the time, so all slices are computed together. With ordinary indexing each
    slice would create a gradient of the size of all outputs, mostly zeros.

    Args:
        layer: The layer, in -> out, with a bias.
        inputs: Inputs of N nodes, (N, length, in).
        slices: Which slices to compute.

    Returns:
        For each slice ``layer(inputs).flatten(1)[nodes, start:stop]``, (n, stop - start).
    """
    outputs: tuple[Tensor, ...] = _SlicedLinear.apply(layer.weight, layer.bias, inputs, slices)
    return list(outputs)


class _SlicedLinear(torch.autograd.Function):
    """See :func:`sliced_linear`.

    Inputs that need more outputs come first, so that a block of outputs is computed for the first so many inputs.
    """

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, bias: Tensor, inputs: Tensor, slices: Sequence[OutputSlice]
    ) -> tuple[Tensor, ...]:
        """(out, in), (out,), (N, length, in) -> (n, stop - start) for each slice."""
        needed, borders, ctx.pieces = _plan(slices, inputs.shape[:2], len(weight))
        order = np.argsort(-needed, kind="stable")[: np.count_nonzero(needed)]
        ctx.order = torch.from_numpy(order).to(weight.device)
        used = inputs.flatten(0, 1).index_select(0, ctx.order)
        ctx.blocks = [(slice(np.count_nonzero(needed > start)), slice(start, end)) for start, end in pairwise(borders)]
        ctx.save_for_backward(weight, inputs, used)
        results = tuple(used.new_empty(len(inputs[part.nodes]), part.stop - part.start) for part in slices)
        for block, (rows, out) in enumerate(ctx.blocks):
            computed = torch.addmm(bias[out], used[rows], weight[out].T)
            pieces = [piece for piece in ctx.pieces if piece.block == block]
            copies = [results[piece.part][:, piece.columns] for piece in pieces]
            if copies:
                torch._foreach_copy_(copies, [computed[piece.rows, piece.outputs] for piece in pieces])
        return results

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of weight, bias and inputs, in their shapes."""
        weight, inputs, used = ctx.saved_tensors
        of_used = torch.empty_like(used)
        of_inputs = torch.zeros_like(inputs)
        of_weight = torch.empty_like(weight)
        of_bias = weight.new_empty(len(weight))
        of_computed = [weight.new_empty(rows.stop, out.stop - out.start) for rows, out in ctx.blocks]
        torch._foreach_zero_(of_computed)
        of_pieces = [gradients[piece.part][:, piece.columns] for piece in ctx.pieces]
        torch._foreach_add_([of_computed[piece.block][piece.rows, piece.outputs] for piece in ctx.pieces], of_pieces)
        for (rows, out), gradient in zip(ctx.blocks, of_computed, strict=True):
            torch.mm(gradient.T, used[rows], out=of_weight[out])
            torch.sum(gradient, dim=0, out=of_bias[out])
            of_used[rows].addmm_(gradient, weight[out], beta=int(out.start > 0))  # the first block has all rows
        of_inputs.view(-1, inputs.shape[2]).index_add_(0, ctx.order, of_used)
        return of_weight, of_bias, of_inputs, None


class _Piece(NamedTuple):
    """What a block has of a slice, from one input of each node: which columns of the slice are which of its outputs."""

    part: int
    columns: slice
    block: int
    rows: slice
    outputs: slice


def _plan(
    slices: Sequence[OutputSlice], shape: Sequence[int], size: int
) -> tuple[NDArray[np.int64], list[int], list[_Piece]]:
    """How many outputs each input, (N * length,), needs, the borders of the blocks, and all pieces.

    The rows of pieces are sorted by the number of outputs.
    """
    parts = []
    needed = np.zeros(shape, np.int64)
    for i, (nodes, first, last) in enumerate(slices):
        for row in range(first // size, -(-last // size)):
            start, stop = max(first - row * size, 0), min(last - row * size, size)
            needed[nodes, row] = np.maximum(needed[nodes, row], stop)
            parts.append((i, row, start, stop))
    borders = _borders(needed.ravel(), size)
    ranks = np.argsort(np.argsort(-needed, axis=None, kind="stable")).reshape(shape)
    pieces = []
    for i, row, start, stop in parts:
        rows = ranks[slices[i].nodes, row]
        stride = int(np.ptp(rows[:2])) or 1  # inputs of one node that need the same number are neighbors
        used = slice(rows[0], rows[-1] + 1, stride)
        offset = row * size - slices[i].start
        for block, (low, high) in enumerate(pairwise(borders)):
            begin = max(start, low)
            end = min(stop, high)
            if begin < end:
                columns = slice(begin + offset, end + offset)
                pieces.append(_Piece(i, columns, block, used, slice(begin - low, end - low)))
    return needed.ravel(), borders, pieces


def _borders(needed: NDArray[np.int64], size: int) -> list[int]:
    """Borders of the blocks, where the products that are not computed are most, one border after the other."""
    ends = np.sort(needed[needed > 0])
    borders = np.array([0, size])
    for _ in range(BLOCKS - 1):
        places = np.searchsorted(borders, ends)
        ended = np.searchsorted(ends, ends, "right") - np.searchsorted(ends, borders[places - 1], "right")
        saved = ended * (borders[places] - ends)
        best = saved.argmax()
        if saved[best]:
            borders = np.insert(borders, places[best], ends[best])
    return [int(border) for border in borders]


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
        # Row i of a factor is the range i r ... (i + 1) r - 1 of the map's outputs, of which each input has max_size.
        used = -(-max(self._most_rows(target) for target in targets) * self.rank // self.max_size)
        weight, bias = (
            parameter.unflatten(0, (2, -1))[:, : used * self.rank].flatten(0, 1) for parameter in self.fc3.parameters()
        )
        inputs = F.relu(F.linear(hidden, weight, bias)).view(len(hidden), -1, self.rank)  # of the linear map
        slices: list[OutputSlice] = []
        first = 0
        for target in targets:
            nodes = slice(first, first + target.count)
            first += target.count
            slices += [OutputSlice(nodes, start * self.rank, stop * self.rank) for start, stop in self._spans_a(target)]
            start, stop = (used * self.max_size + end * self.rank for end in _span_b(target))
            slices.append(OutputSlice(nodes, start, stop))
        factors = (
            rearrange(part, "n (size r) -> n size r", r=self.rank) for part in sliced_linear(self.basis, inputs, slices)
        )
        decoded: list[Tensor | Factors] = []
        for target in targets:
            *a, b = islice(factors, 3 if target.kind == "norm" else 2)
            decoded.append(_factors(target, a[0], b) if _is_matrix(target) else _vectors(target, a, b))
        return decoded

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

    def _most_rows(self, target: Target) -> int:
        """Number of rows that a target needs of A or B, whichever are more; T is not A."""
        spans = [] if target.kind == "tokens" else self._spans_a(target)
        return max(stop for _, stop in (*spans, _span_b(target)))

    def check(self, target: Target) -> None:
        """See :class:`Decoder`."""
        most = self._most_rows(target)
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
    if target.kind != "norm":
        return (a[0] @ b.mT).squeeze(2)
    return rearrange(torch.cat(a, dim=1) @ b.mT, "n (two size) 1 -> n two size", two=2)
