"""GHN-3: a hypernetwork with a convolutional decoder."""

from typing import Any

from lgx.methods.hypernetworks import GHN3 as SPEC
from lgx.methods.hypernetworks.base import HypernetMethod


class GHN3(HypernetMethod):
    """GHN-3: convolutional decoder of dense weights [0].

    [0]: Knyazev et al., "Can We Scale Transformers to Predict Parameters of Diverse ImageNet Models?", ICML 2023,
    https://arxiv.org/abs/2303.04143

    Args:
        max_shape: Largest (out, in, kernel height, kernel width) that is predicted; larger targets are tiled. The
            decoder has 8 D × out × in parameters for it. By default (D, D, 16, 16), as in the released code: GHN-3-T
            has D = 64 and GHN-3-S 128, where LoGAH can afford 2048.
        width: Embedding width D.
        kwargs: Arguments of ``HypernetMethod`` and of every method.
    """

    spec = SPEC
    decoder = "conv"

    def __init__(self, max_shape: tuple[int, int, int, int] | None = None, width: int = 128, **kwargs: Any) -> None:
        super().__init__(max_shape=max_shape or (width, width, 16, 16), width=width, **kwargs)
