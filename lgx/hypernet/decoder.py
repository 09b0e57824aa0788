"""Interface of decoders, which predict raw parameters from node embeddings.

Raw parameters are at most as large as ``max_shape`` and not normalized; :mod:`lgx.hypernet.postprocessing` tiles and
normalizes them. Shapes: n nodes with the same target, D embedding width, r rank.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from einops import rearrange
from torch import Tensor, nn

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
    """Weights of n nodes as low-rank products A Bᵀ.

    Attributes:
        a: A, (n, out * kernel height, r).
        b: B, (n, in * kernel width, r).
        kernel: Kernel height and width.
    """

    a: Tensor
    b: Tensor
    kernel: tuple[int, int]

    def to_dense(self) -> Tensor:
        """Multiply the factors.

        Returns:
            (n, out, in, kernel height, kernel width).
        """
        height, width = self.kernel
        product = self.a @ self.b.transpose(1, 2)
        return rearrange(product, "n (out kh) (inp kw) -> n out inp kh kw", kh=height, kw=width)


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
