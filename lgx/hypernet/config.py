"""The configuration of a hypernetwork."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from lgx.core.schema import Field, at_most, between, check_fields, one_of, or_none
from lgx.errors import UserError
from lgx.hypernet.encoder import SizeEmbedding
from lgx.hypernet.graph import Convention
from lgx.hypernet.low_rank_decoder import Layout


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
            :class:`~lgx.hypernet.encoder.FourierShapeEmbedding`.
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
        check_fields(vars(self), _FIELDS, "hypernetwork")
        if self.vocab_size is not None and (self.decoder == "conv" or self.layout == "official"):
            raise UserError(
                "hypernetwork: vocab_size needs the low_rank decoder with layout residual or aligned; leave it out or "
                "choose one of these layouts"
            )
        if self.width % 4 or self.width % self.heads:
            raise UserError(
                f"hypernetwork: width {self.width} must be a multiple of 4 and of heads {self.heads}; choose another"
            )

    def to_dict(self) -> dict[str, Any]:
        """The configuration as plain types, for JSON."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


_LARGEST = (2**20, 2**20, 255, 255)


def _is_shape(value: Any) -> bool:
    sizes = zip(value, _LARGEST, strict=True) if isinstance(value, tuple) and len(value) == 4 else [(0, 1)]
    return all(at_most(most, 1).holds(size) for size, most in sizes)


_FIELDS = {
    "width": at_most(65_536, 1),
    "layers": at_most(1000, 1),
    "heads": at_most(65_536, 1),
    "max_shape": Field(_is_shape, f"four whole numbers, 1 to {_LARGEST}"),
    "num_classes": at_most(100_000, 1),
    "decoder": one_of("conv", "low_rank"),
    "rank": at_most(65_536, 1),
    "max_size": at_most(2**24, 1),
    "layout": one_of(*get_args(Layout)),
    "task_width": or_none(at_most(2**20, 1)),
    "convention": one_of(*get_args(Convention)),
    "class_position_std": between(0, 1000),
    "vocab_size": or_none(at_most(2**24, 1)),
    "attention_gain": between(0.001, 1000),
    "size_embedding": one_of(*get_args(SizeEmbedding)),
}
"""What each option must be: a file must not claim sizes that exhaust time or memory."""
