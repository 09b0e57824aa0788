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
        strategy: ``cyclic``, or one of two readings of the paper's random-assigned initialization (Table 4, RI):
            ``random_assigned`` draws a source for each layer, ``random_in_order`` also sorts the draws by stage.
        order: Stage that grows first under ``cyclic``: order1 or order2 of Table 4.
        seed: Seed of the random strategies.
    """

    def __init__(
        self,
        source: str,
        strategy: Literal["cyclic", "random_assigned", "random_in_order"] = "cyclic",
        order: Order = "front_mid_last",
        seed: int = 0,
    ) -> None:
        super().__init__(source)
        self.strategy, self.order, self.seed = strategy, order, seed

    @property
    def method(self) -> str:
        """The learngene's method, and the strategy where it is not the default: ``sws``, ``sws_order2``."""
        if self.strategy != "cyclic":
            return f"{self.loaded.method}_{self.strategy}"
        return f"{self.loaded.method}_order2" if self.order == "front_last_mid" else self.loaded.method

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The learngene's layers, expanded to the descendant's depth."""
        tensors = self.tensors_for(architecture)
        stages = self.loaded.num_layers
        depth = architecture.depth
        if self.strategy != "cyclic":
            layers = random_assigned(stages, depth, self.seed, keeps_order=self.strategy == "random_in_order")
        else:
            layers = cyclic(stages, depth, self.order)
        return take_layers(tensors, layers, architecture.layers)
