"""GHN-3's convolutional decoder.

Shapes: n nodes with the same target, D embedding width, kh and kw kernel height and width.
"""

from collections.abc import Sequence

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional as F

from lgx.hypernet.decoder import Decoder, Factors, Target


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
        parts = x.split([target.count for target in targets])
        return [self._decode(part, target) for part, target in zip(parts, targets, strict=True)]

    def _decode(self, x: Tensor, target: Target) -> Tensor:
        """The raw parameters of one target, (n, ...), from the embeddings of its nodes, (n, D)."""
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
        largest = self.max_shape[2:]
        inside = [min(k, most) for k, most in zip(kernel, largest, strict=True)]
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
        top, left = height // 2 - kernel[0] // 2, width // 2 - kernel[1] // 2
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
