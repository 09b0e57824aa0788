"""What a decoder is: from node embeddings to raw parameters.

Raw tensors are no larger than ``max_shape``; tiling to larger targets and normalizing are the business of
:mod:`lgx.hypernet.predict`. Shapes: n nodes of one target, D embedding width, r rank.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from einops import rearrange
from torch import Tensor, nn

Kind = Literal["matrix", "head", "tokens", "norm", "bias", "head_bias"]


@dataclass(frozen=True)
class Target:
    """What is wanted of some nodes.

    Attributes:
        kind: ``matrix`` or ``head`` for a weight, ``tokens`` for an embedding of tokens that have rows of their own in
            the decoder, ``norm`` for a norm's weight and bias, ``bias`` or ``head_bias``.
        shape: (out, in, kernel height, kernel width) of a weight, (size,) of vectors; out, in and size are no larger
            than ``max_shape``, but for heads and tokens that the decoder has its own way for.
        count: Number of nodes n.
    """

    kind: Kind
    shape: tuple[int, ...]
    count: int


@dataclass(frozen=True)
class Factors:
    """Weights of n nodes as products.

    Attributes:
        a: (n, out * kernel height, r).
        b: (n, in * kernel width, r).
        kernel: Kernel height and width.
    """

    a: Tensor
    b: Tensor
    kernel: tuple[int, int]

    def to_dense(self) -> Tensor:
        """The weights, (n, out, in, kernel height, kernel width)."""
        height, width = self.kernel
        product = self.a @ self.b.transpose(1, 2)
        return rearrange(product, "n (out kh) (inp kw) -> n out inp kh kw", kh=height, kw=width)


class Decoder(nn.Module, ABC):
    """What predicts raw parameters from node embeddings."""

    def check(self, target: Target) -> None:
        """Refuse a target that is too large.

        Raises:
            UserError: If the decoder has no rows for it.
        """

    @abstractmethod
    def decode(self, x: Tensor, targets: Sequence[Target]) -> list[Tensor | Factors]:
        """Predict for all nodes at once, so that targets can share work.

        Args:
            x: Node embeddings, (N, D): the nodes of the first target, of the second, and so on.
            targets: What is wanted of them; their counts sum to N.

        Returns:
            For each target (n, out, in, kernel height, kernel width), dense or as factors; (n, 2, size) for a norm;
            (n, size) for a bias.

        Raises:
            UserError: If a target is too large for the decoder.
        """
