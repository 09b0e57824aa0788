"""Interface of decoders, which predict raw parameters from node embeddings, and what becomes of these.

Raw parameters are at most as large as ``max_shape`` and not normalized; :func:`postprocess` tiles them, and names them
as timm and transformers do. Shapes: n nodes with the same target, D embedding width, r rank.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional as F

from lgx.hypernet.graph import Node

TargetKind = Literal["matrix", "head", "tokens", "norm", "bias", "head_bias"]
"""Kind of parameter; see :class:`Target`."""


@dataclass(frozen=True)
class Target:
    """What to predict for n nodes.

    Attributes:
        kind: ``matrix`` for a weight, ``head`` for the head's weight, ``tokens`` for a token embedding with rows of its
            own in the decoder, ``norm`` for the weight and bias of a norm, ``bias``, or ``head_bias``.
        shape: (out, in, kernel height, kernel width) of a weight, (size,) of a vector. Sizes are at most those of
            ``max_shape``, except for a head or a token embedding that the decoder has parameters of its own for.
        count: Number of nodes n.
    """

    kind: TargetKind
    shape: tuple[int, ...]
    count: int


@dataclass(frozen=True)
class Factors:
    """Weights of n nodes as low-rank products s A Bᵀ.

    Attributes:
        a: A, (n, out * kernel height, r).
        b: B, (n, in * kernel width, r).
        kernel: Kernel height and width.
        scale: s.
        transposed: Whether the model stores s B Aᵀ instead, which has no kernel.
    """

    a: Tensor
    b: Tensor
    kernel: tuple[int, int]
    scale: float = 1.0
    transposed: bool = False

    def to_dense(self) -> Tensor:
        """Multiply the factors.

        Returns:
            (n, out, in, kernel height, kernel width).
        """
        height, width = self.kernel
        return rearrange(self.a @ self.b.transpose(1, 2), "n (out kh) (inp kw) -> n out inp kh kw", kh=height, kw=width)


class Decoder(nn.Module, ABC):
    """Predicts raw parameters from node embeddings."""

    def check(self, target: Target) -> None:
        """Refuse a target that is too large for the decoder. By default, none is.

        Args:
            target: What to predict; its count does not matter.
        """

    @abstractmethod
    def decode(self, x: Tensor, targets: Sequence[Target]) -> list[Tensor | Factors]:
        """Predict for all nodes at once, so that targets can share computations.

        Args:
            x: Node embeddings, (N, D): first those of the first target, then those of the second, and so on.
            targets: What to predict for them; their counts sum to N.

        Returns:
            For each target (n, out, in, kernel height, kernel width), dense or as factors; (n, 2, size) for a norm's
            weight and bias; (n, size) for a bias.
        """


def tile(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Repeat a tensor along each dimension until it covers a shape, then crop it to that shape.

    Returns:
        A tensor of the wanted shape.
    """
    if any(want > have for want, have in zip(shape, tensor.shape, strict=True)):
        tensor = tensor.repeat([-(-want // have) for want, have in zip(shape, tensor.shape, strict=True)])
    for dim, want in enumerate(shape):
        tensor = tensor.narrow(dim, 0, want) if want < tensor.shape[dim] else tensor
    return tensor


def weight_scale(shape: tuple[int, ...]) -> float:
    """Factor that gives a predicted weight the variance of He initialization (He et al., 2015), as in GHN-3.

    ``sqrt(β / fan_in)``, where β = 2, but β = 1 for kernels with one input channel or with more columns than rows.

    Args:
        shape: Shape of the weight, (out, in, ...).
    """
    depthwise = len(shape) > 2 and (shape[1] == 1 or (len(shape) > 3 and shape[2] < shape[3]))
    return math.sqrt((1 if depthwise else 2) / math.prod(shape[1:]))


BIAS_SLOPE, NORM_SLOPE = 0.2, 0.25
"""Factors of raw biases, and of raw weights of norms, before a hyperbolic tangent.

A bias is tanh(0.2 x), between -1 and 1, and a norm's weight is 2 sigmoid(0.5 x) = 1 + tanh(0.25 x) (GHN-3).
"""


def postprocess(node: Node, gain: float, decoded: Tensor | Factors) -> dict[str, Tensor | Factors]:
    """Tile the raw predictions for n nodes that differ only in their parameter's name, and scale matrices.

    Args:
        node: The node, without its parameter's name.
        gain: Factor on the parameter, see :func:`attention_gain`.
        decoded: The decoder's output for the n nodes; see :meth:`~lgx.hypernet.decoder.Decoder.decode`.

    Returns:
        The n parameters, (n, ...), under name patterns: ``{0}`` stands for the parameter's name, ``{1}`` for the name
        without ``.weight``. Vectors are not normalized yet.
    """
    op, shape = node.op, node.shape
    if op == "pos_enc" and node.form != "table":
        positions = _position_embeddings(_dense_tensor(decoded), shape)
        return {"{0}": positions if gain == 1 else positions * gain}
    if op == "bias":
        vectors = _dense_tensor(decoded)
        return {"{0}": _deinterleaved(tile(vectors, (len(vectors), *shape)), node.fused)}
    if op == "ln":
        pairs = _dense_tensor(decoded)
        weights, biases = tile(pairs, (len(pairs), 2, *shape)).unbind(1)
        return {"{1}.weight": weights, "{1}.bias": biases} if node.has_bias else {"{1}.weight": weights}
    scale = matrix_scale(node) * gain
    if isinstance(decoded, Factors) and len(shape) == 2:  # tiling repeats rows of both factors
        count, _, rank = decoded.a.shape
        a = _deinterleaved(tile(decoded.a, (count, shape[0], rank)), node.fused)
        b = tile(decoded.b, (count, shape[1], rank))
        return {"{0}": Factors(a, b, (1, 1), scale, node.form == "transposed")}
    weights = _dense_tensor(decoded) * scale
    weights = tile(weights, (len(weights), *shape, 1, 1)[:5]).reshape(-1, *shape)
    return {"{0}": weights.mT.contiguous() if node.form == "transposed" else weights}


def matrix_scale(node: Node) -> float:
    """Factor on the predicted matrix or kernel of a node.

    The matrices and tables of a text model get the standard deviation of GPT-2's own initialization. LoGAH's code
    divides matrices by their deviation first; TAL's, which is based on an older version, uses He's. With He's, and
    tables of standard deviation 1, a GPT-2 of 3 layers stays at chance on SST-2 for 400 steps, even if its weights are
    trained directly. With GPT-2's it is as accurate as from transformers' own initialization.
    """
    return node.std or weight_scale(node.shape)


def _dense_tensor(decoded: Tensor | Factors) -> Tensor:
    """The decoder's output, (n, ...), with factors multiplied."""
    return decoded.to_dense() if isinstance(decoded, Factors) else decoded


def _deinterleaved(rows: Tensor, fused: int) -> Tensor:
    """(n, size, ...) with rows of the fused matrices in turn -> (n, size, ...) with one matrix after the other."""
    return rows if fused == 1 else rearrange(rows, "n (rows fused) ... -> n (fused rows) ...", fused=fused)


def _position_embeddings(raw: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Tile to (n, 1, D, s, s) and return (n, 1, 1 + s², D): zeros for the class token, then the positions by row."""
    return F.pad(tile(raw, (len(raw), *shape)).flatten(3).mT, (0, 0, 1, 0))


def attention_gain(node: Node, gain: float) -> float:
    """Factor that scales the contribution of attention to the residual stream, relative to the other contributions.

    At the start of training, attention outputs the mean over the N tokens. The variance of that mean is only 1/N of the
    variance of the token's own embedding, position and MLP outputs, so the classified token (the class token, or the
    last token of a GPT-2) has little information about the others. Free weights grow tenfold within some hundred
    steps; the predictions of a hypernetwork hardly grow, and a GPT-2 that has to find one word among 64 stays at
    chance. This gain is in no paper. Measured once on IMDB (64 tokens, width 64, 3 layers), validation accuracy: 52 %
    after 400 steps with g = 1 (a hypernetwork of one architecture), 67 % after 600 steps with g = 6 (of six
    architectures).

    Args:
        node: The node of a parameter.
        gain: g > 0.

    Returns:
        g for the output projections of attention, 1 / g for the output projections of MLPs and the position embedding,
        1 for other parameters.
    """
    if node.branch == "attention":
        return gain
    return 1 / gain if node.branch == "mlp" or node.op == "pos_enc" else 1.0


class ConvDecoder(Decoder):
    """Predicts a kernel of the size ``max_shape`` with an MLP shared by all positions, and crops it to the target.

    The decoder of GHN-3 (Knyazev et al., 2023). Only the positions and channels within the target are computed. The
    head and biases have layers of their own.

    Args:
        width: D.
        max_shape: Largest (out, in, kernel height, kernel width) that is predicted.
        num_classes: Number of classes of the largest head that is predicted without tiling.
    """

    def __init__(self, width: int, max_shape: tuple[int, int, int, int], num_classes: int) -> None:
        super().__init__()
        self.width, self.max_shape, self.num_classes = width, max_shape, num_classes
        self.fc = nn.Linear(width, 4 * width * max_shape[2] * max_shape[3])
        self.conv1 = nn.Linear(4 * width, 8 * width)
        self.conv2 = nn.Linear(8 * width, max_shape[0] * max_shape[1])
        self.vector1 = nn.Linear(width, 2 * width)
        self.vector2 = nn.Linear(2 * width, 2 * max_shape[0])
        self.head_weight = nn.Linear(max_shape[0], num_classes)
        self.head_bias = nn.Linear(max_shape[0], num_classes)
        for last in (self.conv2, self.vector2, self.head_weight):
            with torch.no_grad():
                last.weight /= 5  # as in GHN-3: predictions start near zero, before normalization
            nn.init.zeros_(last.bias)

    def decode(self, x: Tensor, targets: Sequence[Target]) -> list[Tensor | Factors]:
        """See :class:`Decoder`."""
        groups = [list(group) for _, group in groupby(targets, lambda target: (target.kind, target.shape))]
        parts = x.split([sum(target.count for target in group) for group in groups])
        decoded: list[Tensor | Factors] = []
        for part, group in zip(parts, groups, strict=True):
            decoded += self._decode(part, group[0]).split([target.count for target in group])
        return decoded

    def _decode(self, x: Tensor, target: Target) -> Tensor:
        """The raw parameters of equal targets, (n, ...), from the embeddings of their nodes, (n, D)."""
        match target.kind, target.shape:
            case "head", (classes, inputs, *_):
                return rearrange(self._head_weights(x, classes, inputs), "n out inp -> n out inp 1 1")
            case "matrix", shape:
                return self._weights(x, shape)
            case "norm", (size,):
                return self._vectors(x, size)
            case "bias", (size,):
                return self._vectors(x, size)[:, 1]
            case _:
                biases: Tensor = self.head_bias(F.relu(self._vectors(x, self.max_shape[0])[:, 1]))
                return biases[:, : target.shape[0]]

    def _weights(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        """(n, D) -> (n, out, in, kh, kw). Kernels larger than ``max_shape`` are interpolated bilinearly."""
        out, inputs, *kernel = shape
        inside = [min(k, most) for k, most in zip(kernel, self.max_shape[2:], strict=True)]
        positions = F.relu(self._positions(x, (inside[0], inside[1])))  # (n, 4 D, kh, kw)
        hidden = F.relu(self.conv1(positions.movedim(1, -1)))  # (n, kh, kw, 8 D)
        used = self.conv2.weight.view(*self.max_shape[:2], -1)[:out, :inputs].flatten(0, 1)
        bias = self.conv2.bias.view(*self.max_shape[:2])[:out, :inputs].flatten()
        values = F.linear(hidden, used, bias).movedim(-1, 1)  # (n, out * in, kh, kw)
        if inside != kernel:
            values = F.interpolate(values, tuple(kernel), mode="bilinear")
        return rearrange(values, "n (out inp) kh kw -> n out inp kh kw", out=out)

    def _positions(self, x: Tensor, kernel: tuple[int, int]) -> Tensor:
        """(n, D) -> (n, 4 D, kh, kw): features of the kernel's positions, the center of the largest kernel."""
        height, width = self.max_shape[2:]
        top = height // 2 - kernel[0] // 2
        left = width // 2 - kernel[1] // 2
        center = (slice(None), slice(top, top + kernel[0]), slice(left, left + kernel[1]))
        weight = self.fc.weight.view(4 * self.width, height, width, -1)[center]
        bias = self.fc.bias.view(4 * self.width, height, width)[center]
        features = F.linear(x, weight.flatten(0, 2), bias.flatten())
        return rearrange(features, "n (c kh kw) -> n c kh kw", kh=kernel[0], kw=kernel[1])

    def _vectors(self, x: Tensor, size: int) -> Tensor:
        """(n, D) -> (n, 2, size): raw weights of norms at index 0, raw biases of any kind at index 1."""
        both: Tensor = self.vector2(F.relu(self.vector1(x)))
        return rearrange(both, "n (two size) -> n two size", two=2)[..., :size]

    def _head_weights(self, x: Tensor, classes: int, inputs: int) -> Tensor:
        """(n, D) -> (n, classes, in): a linear layer maps the outputs of a 1 x 1 kernel to classes."""
        outputs = self._weights(x, (self.max_shape[0], inputs, 1, 1))[..., 0, 0]  # (n, max out, in)
        predicted: Tensor = self.head_weight(F.relu(outputs).transpose(1, 2))[..., :classes]
        return predicted.transpose(1, 2)
