"""Stage-wise expansion: the start of SWS, Simple-LG and Mini-DeiT."""

from typing import Literal

from torch import Tensor

from lgx.architectures import Architecture
from lgx.core.task import Task
from lgx.initialization.expansion import Order, cyclic, random_assigned, take_layers
from lgx.methods.layers import LayerExpansion


class StagewiseExpansion(LayerExpansion):
    """Copy each learngene layer to its stage's layers (SWS, Sec. 3.3).

    A learngene of ``simple_lg``, the layers of a normally trained shallow network, is expanded in the same way. So is
    one of ``mini_deit``: its descendants have no transformations.

    Xia et al., "Exploring Learngene via Stage-wise Weight Sharing for Initializing Variable-sized Models", IJCAI 2024,
    https://arxiv.org/abs/2404.16897

    Args:
        source: Learngene file.
        strategy: ``cyclic``, or ``random_assigned`` (Table 4, RI).
        order: Stage that grows first under ``cyclic``: order1 or order2 of Table 4.
        seed: Seed of ``random_assigned``.
    """

    def __init__(
        self,
        source: str,
        strategy: Literal["cyclic", "random_assigned"] = "cyclic",
        order: Order = "front_mid_last",
        seed: int = 0,
    ) -> None:
        super().__init__(source)
        self.strategy, self.order, self.seed = strategy, order, seed

    @property
    def method(self) -> str:
        """The learngene's method, and the strategy where it is not the default: ``sws``, ``sws_order2``."""
        if self.strategy == "random_assigned":
            return f"{self.loaded.method}_random_assigned"
        return f"{self.loaded.method}_order2" if self.order == "front_last_mid" else self.loaded.method

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The learngene's layers, expanded to the descendant's depth."""
        tensors = self.tensors_for(architecture)
        stages, depth = self.loaded.num_layers, architecture.depth
        if self.strategy == "random_assigned":
            layers = random_assigned(stages, depth, self.seed)
        else:
            layers = cyclic(stages, depth, self.order)
        return take_layers(tensors, layers)
