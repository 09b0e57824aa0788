"""SWS: stage-wise weight sharing."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import Learngene, take_layers
from lgx.initialization.expansion import first_of_stages
from lgx.methods.distillation.method import Distill


class SWS(Distill):
    """Learn stage learngenes by distilling an ancestor into an auxiliary net whose stages share their weights.

    Xia et al., "Exploring Learngene via Stage-wise Weight Sharing for Initializing Variable-sized Models", 2024. The
    auxiliary net has ``sum(stages)`` layers, but only one set of layer weights per stage is trained (Eq. 1), so each
    learngene layer has met its own repetition in training. Loss: Eq. 4, as in :class:`Distill`.

    Args:
        stages: Layers of each stage, front to back; the paper's default is balanced.
        kwargs: Arguments of ``Distill`` and of every method. The depth in ``arch`` gives way to ``sum(stages)``.
    """

    architecture: ViTArchitecture

    def __init__(self, stages: tuple[int, ...] = (3, 3, 4, 3, 3), **kwargs: Any) -> None:
        self.stages = tuple(stages)
        super().__init__(**kwargs)

    @property
    def method(self) -> str:
        """``sws``."""
        return "sws"

    def make_architecture(self, architecture: ViTArchitecture) -> ViTArchitecture:
        """The auxiliary net: depth and sharing from ``stages``."""
        return architecture.replace(depth=sum(self.stages), stages=self.stages)

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """One layer per stage, and all that is not a layer."""
        tensors = take_layers(state, first_of_stages(self.stages))
        return Learngene(self.method, self.architecture, tensors, ancestor=self.ancestor or "")
