"""LoGAH: a hypernetwork with a low-rank decoder."""

from typing import Any

from lgx.hypernet.low_rank_decoder import Layout
from lgx.methods.hypernetworks import LOGAH as SPEC
from lgx.methods.hypernetworks.base import HypernetMethod
from lgx.methods.hypernetworks.initializer import method_of


class LoGAH(HypernetMethod):
    """LoGAH: low-rank decoder, executed without forming the weights [0].

    [0]: Zhou et al., "LoGAH: Predicting 774-Million-Parameter Transformers using Graph HyperNetworks with 1/100
    Parameters", 2024, https://arxiv.org/abs/2405.16287

    Args:
        rank: Rank r of every predicted weight.
        max_size: Largest number of rows or columns.
        layout: Layout of the factors; ``official`` is what "LoGAH" means in the papers' tables.
        kwargs: Arguments of ``HypernetMethod`` and of every method.
    """

    spec = SPEC
    decoder = "low_rank"

    def __init__(self, rank: int = 90, max_size: int = 32768, layout: Layout = "official", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.decoder_options = {"rank": rank, "max_size": max_size, "layout": layout}

    @property
    def method(self) -> str:
        """``logah``; ``logah_residual`` or ``logah_aligned`` for the other layouts."""
        return method_of(self.config)
