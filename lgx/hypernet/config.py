"""The configuration of a hypernetwork."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from lgx.errors import UserError
from lgx.hypernet.graph import Convention
from lgx.hypernet.low_rank_decoder import Layout
from lgx.hypernet.shape_embedding import SizeEmbedding


@dataclass(frozen=True)
class HypernetConfig:
    """Everything that is needed to build a hypernetwork. It is stored with the weights and never guessed from them.

    Attributes:
        width: Embedding width D.
        layers: Number of Graphormer blocks.
        heads: Number of attention heads.
        max_shape: Largest (out, in, kernel height, kernel width) that is predicted; larger targets are tiled.
        num_classes: Number of classes that the hypernetwork is built for.
        decoder: ``conv`` (GHN-3) or ``low_rank`` (LoGAH, TAL).
        rank: Rank r of the low-rank decoder.
        max_size: Largest number of rows or columns of the low-rank decoder's factors.
        layout: How the low-rank decoder computes its factors; see
            :class:`~lgx.hypernet.low_rank_decoder.LowRankDecoder`.
        task_width: Width T of task embeddings; None without task conditioning.
        convention: Whether graphs have attention nodes (``msa``) or not (``plain``).
        class_position_std: Standard deviation of the class token's row of the position embedding, which is not
            predicted. With 0 the row is zero. The official code draws it with 0.02 at each prediction, so that its
            predictions cannot be reproduced.
        vocab_size: Number of tokens with rows of their own in the low-rank decoder; only with layout ``residual`` or
            ``aligned``. With None a token embedding is tiled like every weight larger than ``max_shape``, as in LoGAH's
            code: tokens i and i + 2048 then share one embedding.
        size_embedding: How the encoder reads the sizes of a parameter: ``table`` as published, or ``fourier``, see
            :class:`~lgx.hypernet.shape_embedding.FourierShapeEmbedding`.
        attention_gain: Factor g of :func:`~lgx.hypernet.attention_gain.apply_attention_gain`. 1 is as published.

    Raises:
        UserError: If a size is not a positive integer, ``width`` is not a multiple of 4 and of ``heads``, a choice is
            unknown, ``class_position_std`` or ``attention_gain`` is out of range, or ``vocab_size`` is given to a
            decoder without token rows.
    """

    width: int = 128
    layers: int = 5
    heads: int = 16
    max_shape: tuple[int, int, int, int] = (2048, 2048, 16, 16)
    num_classes: int = 1000
    decoder: Literal["conv", "low_rank"] = "low_rank"
    rank: int = 90
    max_size: int = 32768
    layout: Layout = "official"
    task_width: int | None = None
    convention: Convention = "msa"
    class_position_std: float = 0.0
    vocab_size: int | None = None
    attention_gain: float = 1.0
    size_embedding: SizeEmbedding = "table"

    def __post_init__(self) -> None:
        for key in ("width", "layers", "heads", "num_classes", "rank", "max_size"):
            if not _is_size(getattr(self, key)):
                raise UserError(f"hypernetwork: {key} must be at least 1, got {getattr(self, key)!r}")
        for key in ("task_width", "vocab_size"):
            if (value := getattr(self, key)) is not None and not _is_size(value):
                raise UserError(f"hypernetwork: {key} must be at least 1 or none, got {value!r}")
        if self.vocab_size is not None and (self.decoder == "conv" or self.layout == "official"):
            raise UserError(
                "hypernetwork: vocab_size needs the low_rank decoder with layout residual or aligned; leave it out or "
                "choose one of these layouts"
            )
        shape = self.max_shape
        if not isinstance(shape, list | tuple) or len(shape) != 4 or not all(map(_is_size, shape)):
            raise UserError(f"hypernetwork: max_shape must be four positive sizes, got {shape!r}")
        object.__setattr__(self, "max_shape", tuple(shape))
        for key, choices in _CHOICES.items():
            if getattr(self, key) not in choices:
                raise UserError(f"hypernetwork: {key} must be {' or '.join(choices)}, got {getattr(self, key)!r}")
        if not _is_finite(self.class_position_std) or self.class_position_std < 0:
            raise UserError(
                f"hypernetwork: class_position_std must be finite and not negative, got {self.class_position_std!r}"
            )
        if not _is_finite(self.attention_gain) or self.attention_gain <= 0:
            raise UserError(f"hypernetwork: attention_gain must be finite and positive, got {self.attention_gain!r}")
        if self.width % 4 or self.width % self.heads:
            raise UserError(
                f"hypernetwork: width {self.width} must be a multiple of 4 and of heads {self.heads}; choose another"
            )

    def to_dict(self) -> dict[str, Any]:
        """The configuration as plain types, for JSON."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


_CHOICES = {
    "decoder": ("conv", "low_rank"),
    "layout": get_args(Layout),
    "convention": get_args(Convention),
    "size_embedding": get_args(SizeEmbedding),
}


_LARGEST_INTEGER = 2**53
"""Integers up to this one are exact as floats; far larger ones overflow."""


def _is_size(value: Any) -> bool:
    return type(value) is int and value > 0


def _is_finite(value: Any) -> bool:
    if type(value) is int:
        return abs(value) <= _LARGEST_INTEGER
    return type(value) is float and math.isfinite(value)
