"""LoGAH: a hypernetwork with a low-rank decoder."""

from typing import Any

from lgx.hypernet.low_rank_decoder import Layout
from lgx.methods.hypernetworks.base import HypernetMethod


class LoGAH(HypernetMethod):
    """LoGAH: low-rank decoder, executed without forming the weights (Zhou et al., 2024).

    Args:
        rank: Rank r of every predicted weight.
        max_size: Largest number of rows or columns.
        layout: Layout of the factors; ``official`` is what "LoGAH" means in the papers' tables.
        kwargs: Arguments of ``HypernetMethod`` and of every method.
    """

    decoder = "low_rank"

    def __init__(self, rank: int = 90, max_size: int = 32768, layout: Layout = "official", **kwargs: Any) -> None:
        self._options = {"rank": rank, "max_size": max_size, "layout": layout}
        super().__init__(**kwargs)

    def decoder_options(self) -> dict[str, Any]:
        """Rank, size and layout."""
        return self._options

    @property
    def method(self) -> str:
        """``logah``; ``logah_residual`` or ``logah_aligned`` for the other layouts."""
        return "logah" if self.config.layout == "official" else f"logah_{self.config.layout}"
