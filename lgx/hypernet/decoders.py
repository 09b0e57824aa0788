"""From node embeddings to parameters: GHN-3's convolutional decoder and LoGAH's low-rank one.

Both give raw tensors no larger than ``max_shape``; cropping a class head, tiling to larger targets and normalising are
the business of :mod:`lgx.hypernet.predict`. Shapes: n nodes of one target shape, D embedding width, r rank.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional as F

from lgx.errors import UserError
from lgx.hypernet.ranges import RowRanges

Layout = Literal["official", "residual"]


@dataclass(frozen=True)
class Features:
    """What a decoder makes of node embeddings before it looks at the targets' shapes; indexed by node.

    Attributes:
        a: (n, ...).
        b: (n, ...); the same as ``a`` where a decoder has but one.
        basis: Parts of a weight and its bias that several target shapes share, by range of rows; not per node.
    """

    a: Tensor
    b: Tensor
    basis: Mapping[tuple[int, int], tuple[Tensor, Tensor]] = field(default_factory=dict)

    def __getitem__(self, nodes: Tensor) -> "Features":
        return Features(self.a[nodes], self.b[nodes], self.basis)


class Decoder(nn.Module, ABC):
    """What predicts raw parameters from node embeddings.

    :meth:`begin` handles all nodes at once; what follows handles the nodes of one target shape.
    """

    @abstractmethod
    def begin(self, x: Tensor, shapes: Sequence[tuple[int, ...]]) -> Features:
        """Features of all nodes.

        Args:
            x: Node embeddings, (n, D).
            shapes: Raw shapes that will be asked for: (out, in, kernel height, kernel width), or (size,) for vectors.
        """

    @abstractmethod
    def matrices(self, features: Features, shape: tuple[int, int, int, int]) -> Tensor:
        """Weights of n nodes.

        Args:
            features: Features of the n nodes.
            shape: (out, in, kernel height, kernel width), none larger than ``max_shape``.

        Returns:
            (n, out, in, kernel height, kernel width).
        """

    @abstractmethod
    def vectors(self, features: Features, size: int) -> Tensor:
        """Weight and bias vectors of n nodes.

        Args:
            features: Features of the n nodes.
            size: Length, at most ``max_shape[0]``.

        Returns:
            (n, 2, size): what a norm's weight is made of, and what any bias is made of.
        """

    def biases(self, features: Features, size: int) -> Tensor:
        """Bias vectors alone, (n, size)."""
        return self.vectors(features, size)[:, 1]

    def head_matrices(self, features: Features, classes: int, inputs: int) -> Tensor:
        """Weights of n class heads, (n, classes, inputs); like any matrix unless the decoder has its own way."""
        return self.matrices(features, (classes, inputs, 1, 1))[..., 0, 0]

    def head_vectors(self, features: Features, classes: int) -> Tensor:
        """Biases of n class heads, (n, classes)."""
        return self.biases(features, classes)


class ConvDecoder(Decoder):
    """GHN-3's decoder: one MLP for all positions of a kernel, cropped to the target (Knyazev et al., 2023).

    Args:
        width: D.
        max_shape: Largest (out, in, kernel height, kernel width) that is predicted.
        num_classes: Largest class head.
    """

    def __init__(self, width: int, max_shape: tuple[int, int, int, int], num_classes: int) -> None:
        super().__init__()
        self.width, self.max_shape = width, max_shape
        self.fc = nn.Linear(width, 4 * width * max_shape[2] * max_shape[3])
        self.conv1 = nn.Linear(4 * width, 8 * width)
        self.conv2 = nn.Linear(8 * width, max_shape[0] * max_shape[1])
        self.vector1 = nn.Linear(width, 2 * width)
        self.vector2 = nn.Linear(2 * width, 2 * max_shape[0])
        self.head_weight = nn.Linear(max_shape[0], num_classes)
        self.head_bias = nn.Linear(max_shape[0], num_classes)
        for last in (self.conv2, self.vector2, self.head_weight):
            with torch.no_grad():
                last.weight /= 5  # GHN-3 starts small, so that its predictions are near zero before normalisation
            nn.init.zeros_(last.bias)

    def begin(self, x: Tensor, shapes: Sequence[tuple[int, ...]]) -> Features:
        """The embeddings themselves."""
        return Features(x, x)

    def matrices(self, features: Features, shape: tuple[int, int, int, int]) -> Tensor:
        """See :class:`Decoder`. Kernels larger than ``max_shape`` are interpolated, bilinearly."""
        out, inputs, *kernel = shape
        largest = self.max_shape[2:]
        inside = [min(k, most) for k, most in zip(kernel, largest, strict=True)]
        positions = F.relu(self._positions(features.a, (inside[0], inside[1])))  # (n, 4 D, kh, kw)
        hidden = F.relu(self.conv1(positions.movedim(1, -1)))  # (n, kh, kw, 8 D)
        used = self.conv2.weight.view(*self.max_shape[:2], -1)[:out, :inputs].flatten(0, 1)
        bias = self.conv2.bias.view(*self.max_shape[:2])[:out, :inputs].flatten()
        values = F.linear(hidden, used, bias).movedim(-1, 1)  # (n, out * in, kh, kw)
        if inside != kernel:
            values = F.interpolate(values, tuple(kernel), mode="bilinear")
        return rearrange(values, "n (out inp) kh kw -> n out inp kh kw", out=out)

    def _positions(self, x: Tensor, kernel: tuple[int, int]) -> Tensor:
        """Features of the kernel's positions, at the centre of the largest kernel; no others are computed."""
        height, width = self.max_shape[2:]
        top, left = height // 2 - kernel[0] // 2, width // 2 - kernel[1] // 2
        place = (slice(None), slice(top, top + kernel[0]), slice(left, left + kernel[1]))
        weight = self.fc.weight.view(4 * self.width, height, width, -1)[place]
        bias = self.fc.bias.view(4 * self.width, height, width)[place]
        features = F.linear(x, weight.flatten(0, 2), bias.flatten())
        return rearrange(features, "n (c kh kw) -> n c kh kw", kh=kernel[0], kw=kernel[1])

    def vectors(self, features: Features, size: int) -> Tensor:
        """See :class:`Decoder`."""
        both: Tensor = self.vector2(F.relu(self.vector1(features.a)))
        return rearrange(both, "n (two size) -> n two size", two=2)[..., :size]

    def head_matrices(self, features: Features, classes: int, inputs: int) -> Tensor:
        """Heads come from all outputs of a 1 x 1 kernel through a layer over the outputs."""
        outputs = self.matrices(features, (self.max_shape[0], inputs, 1, 1))[..., 0, 0]  # (n, max out, in)
        predicted: Tensor = self.head_weight(F.relu(outputs).transpose(1, 2))[..., :classes]
        return predicted.transpose(1, 2)

    def head_vectors(self, features: Features, classes: int) -> Tensor:
        """Biases of heads come from the bias row through a layer of their own."""
        biases: Tensor = self.head_bias(F.relu(self.vectors(features, self.max_shape[0])[:, 1]))[:, :classes]
        return biases


class LowRankDecoder(Decoder):
    """LoGAH's decoder: every weight is a product A B of rank r (Zhou et al., 2024).

    An MLP (D -> 4 D -> 8 D -> 2 r²) and a linear map give A (rows × r) and B (r × columns), where rows = out × kernel
    height and columns = in × kernel width. Only what a target reads is computed.

    ``layout`` says how the map is laid out. ``official``: the map r -> ``max_size`` is applied to each of 2 r rows and
    the result *viewed* as A and B, so that a small target reads one or two of the rows; this is "LoGAH" in the papers'
    tables. ``residual``: A = L_out (I + X₁), B = (I + X₂) L_inᵀ with two bases L, which uses every number of the MLP.

    Args:
        width: D.
        rank: r.
        max_shape: Largest (out, in, kernel height, kernel width) that is predicted.
        max_size: Largest number of rows or columns.
        layout: ``official`` or ``residual``.
    """

    def __init__(
        self,
        width: int,
        rank: int,
        max_shape: tuple[int, int, int, int],
        max_size: int,
        layout: Layout = "official",
    ) -> None:
        super().__init__()
        self.rank, self.max_shape, self.max_size, self.layout = rank, max_shape, max_size, layout
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, 8 * width)
        self.fc3 = nn.Linear(8 * width, 2 * rank * rank)
        if layout == "official":
            self.basis = nn.Linear(rank, max_size)
        else:
            self.basis_out = nn.Parameter(torch.randn(max_size, rank) * rank**-0.25)
            self.basis_in = nn.Parameter(torch.randn(max_size, rank) * rank**-0.25)

    def begin(self, x: Tensor, shapes: Sequence[tuple[int, ...]]) -> Features:
        """The MLP's numbers, as many of them as the largest target reads; (n, read rows, r) for A and for B."""
        hidden = F.relu(self.fc2(F.relu(self.fc1(x))))  # (n, 8 D)
        if self.layout == "residual":
            small = rearrange(self.fc3(hidden), "n (two r s) -> n two r s", two=2, r=self.rank)
            small = small + torch.eye(self.rank, dtype=small.dtype, device=small.device)
            return Features(small[:, 0], small[:, 1])
        of_a = [span for shape in shapes for span in self._spans(shape)]
        of_b = [(0, 1 if len(shape) == 1 else shape[1] * shape[3]) for shape in shapes]
        rows_a, rows_b = (max(part[0] for span in spans for part in self._parts(*span)) + 1 for spans in (of_a, of_b))
        ranges = sorted({part[1:] for span in (*of_a, *of_b) for part in self._parts(*span)})
        weights = RowRanges.apply(self.basis.weight, ranges)
        biases = RowRanges.apply(self.basis.bias, ranges)
        r, half = self.rank, self.rank * self.rank
        mlp = [(0, rows_a * r), (half, half + rows_b * r)]
        mixed_a, mixed_b = (
            rearrange(F.relu(F.linear(hidden, weight, bias)), "n (rows r) -> n rows r", r=r)
            for weight, bias in zip(
                RowRanges.apply(self.fc3.weight, mlp), RowRanges.apply(self.fc3.bias, mlp), strict=True
            )
        )
        return Features(mixed_a, mixed_b, basis=dict(zip(ranges, zip(weights, biases, strict=True), strict=True)))

    def _spans(self, shape: tuple[int, ...]) -> list[tuple[int, int]]:
        """Which rows of A a target reads, as (first, count): for vectors the weight's and the bias's."""
        if len(shape) == 1:
            return [(0, shape[0]), (self._rounded(shape[0]), shape[0])]
        return [(0, shape[0] * shape[2])]

    def _parts(self, first: int, count: int) -> list[tuple[int, int, int]]:
        """Where viewed rows lie in the map's output: (row of the map, first column, behind the last column).

        Raises:
            UserError: If there are not so many rows.
        """
        if first + count > self.max_size:
            raise UserError(
                f"low-rank decoder: a weight with {first + count} rows or columns exceeds max_size {self.max_size}; "
                f"use a hypernetwork with a larger max_size"
            )
        size, (start, stop) = self.max_size, (first * self.rank, (first + count) * self.rank)
        rows = range(start // size, -(-stop // size))
        return [(row, max(start - row * size, 0), min(stop - row * size, size)) for row in rows]

    def factors(self, features: Features, rows: int, columns: int, first: int = 0) -> tuple[Tensor, Tensor]:
        """A and B of n nodes.

        Args:
            features: Features of the n nodes.
            rows: Rows of A.
            columns: Columns of B.
            first: First of the rows.

        Returns:
            A, (n, rows, r), and B, (n, r, columns).

        Raises:
            UserError: If rows or columns exceed ``max_size``.
        """
        if self.layout == "residual":
            self._parts(first, rows), self._parts(0, columns)
            return self.basis_out[first : first + rows] @ features.a, features.b @ self.basis_in[:columns].T
        a = self._viewed(features.a, features, first, rows)
        return a, self._viewed(features.b, features, 0, columns).transpose(1, 2)

    def _viewed(self, mixed: Tensor, features: Features, first: int, count: int) -> Tensor:
        """Rows [first, first + count) of the map's output viewed as rows of r numbers, (n, count, r)."""
        parts = [
            F.linear(mixed[:, row], *features.basis[start, stop]) for row, start, stop in self._parts(first, count)
        ]
        return torch.cat(parts, dim=1).view(-1, count, self.rank)

    def matrices(self, features: Features, shape: tuple[int, int, int, int]) -> Tensor:
        """See :class:`Decoder`."""
        a, b = self.factors(features, shape[0] * shape[2], shape[1] * shape[3])
        return rearrange(a @ b, "n (out kh) (inp kw) -> n out inp kh kw", kh=shape[2], kw=shape[3])

    def vectors(self, features: Features, size: int) -> Tensor:
        """See :class:`Decoder`.

        Both vectors are one column of a product; where the second starts follows from the *rounded* size, as in the
        official code.
        """
        a, b = self.factors(features, size, 1)
        return torch.stack([(a @ b)[..., 0], self.biases(features, size)], dim=1)

    def biases(self, features: Features, size: int) -> Tensor:
        """See :class:`Decoder`."""
        a, b = self.factors(features, size, 1, first=self._rounded(size))
        return (a @ b)[..., 0]

    def _rounded(self, size: int) -> int:
        """GHN-3's rounding of sizes, by which it groups targets."""
        most = self.max_shape[0]
        size = min(size, most)
        if size % 3 == 0:
            size = size * 4 // 3
        return most if size >= most / 2 else size
