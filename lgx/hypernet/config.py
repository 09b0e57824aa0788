"""The configuration of a hypernetwork."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from lgx.core.schema import shortened
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
        UserError: If a size is not a positive integer or too large, ``width`` is not a multiple of 4 and of ``heads``,
            a choice is unknown, ``class_position_std`` or ``attention_gain`` is out of range, or ``vocab_size`` is
            given to a decoder without token rows.
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
        if isinstance(self.max_shape, list):
            object.__setattr__(self, "max_shape", tuple(self.max_shape))
        if not isinstance(self.max_shape, tuple) or len(self.max_shape) != 4:
            raise UserError(f"hypernetwork: max_shape must be four positive sizes, got {self.max_shape!r}")
        sizes = {key: getattr(self, key) for key in _MOST if not key.startswith("max_shape")}
        sizes |= {f"max_shape[{i}]": size for i, size in enumerate(self.max_shape)}
        for key, size in sizes.items():
            if size is None and key in ("task_width", "vocab_size"):
                continue
            if type(size) is not int or not 1 <= size <= _MOST[key]:
                raise UserError(
                    f"hypernetwork: {key} must be at least 1, at most {_MOST[key]:,}, got {shortened(size)}"
                )
        if self.vocab_size is not None and (self.decoder == "conv" or self.layout == "official"):
            raise UserError(
                "hypernetwork: vocab_size needs the low_rank decoder with layout residual or aligned; leave it out or "
                "choose one of these layouts"
            )
        for key, choices in _CHOICES.items():
            if getattr(self, key) not in choices:
                raise UserError(f"hypernetwork: {key} must be {' or '.join(choices)}, got {getattr(self, key)!r}")
        for key, (least, most, usual) in _RANGES.items():
            value = getattr(self, key)
            if type(value) not in (int, float) or not least <= value <= most:
                raise UserError(
                    f"hypernetwork: {key} must be between {least} and {most}, got {shortened(value)}; {usual} is usual"
                )
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
_RANGES = {"class_position_std": (0, 1000, 0.02), "attention_gain": (0.001, 1000, 1)}
_MOST = {
    "width": 65_536, "layers": 1000, "heads": 65_536, "num_classes": 100_000, "rank": 65_536, "max_size": 2**24,
    "task_width": 2**20, "vocab_size": 2**24, "max_shape[0]": 2**20, "max_shape[1]": 2**20, "max_shape[2]": 255,
    "max_shape[3]": 255,
}  # fmt: skip
"""Largest accepted sizes: a file must not claim sizes that exhaust time or memory."""
