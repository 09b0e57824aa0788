"""SWS: stage-wise weight sharing."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from lgx.architectures import Architecture
from lgx.artifacts.learngene import Learngene
from lgx.errors import UserError
from lgx.initialization.expansion import first_of_stages, take_layers
from lgx.methods.distillation.method import Distill
from lgx.methods.distillation.start import stage_shares
from lgx.methods.sws import SPEC


class SWS(Distill):
    """Learn stage learngenes by distilling an ancestor into an auxiliary net whose stages share their weights.

    The auxiliary net has ``sum(stages)`` layers, but only one set of layer weights per stage is trained ([0], Eq. 1):
    training repeats each learngene layer, as expansion does. Loss: [0], Eq. 4, as in :class:`Distill`.

    [0]: Xia et al., "Exploring Learngene via Stage-wise Weight Sharing for Initializing Variable-sized Models",
    IJCAI 2024, https://arxiv.org/abs/2404.16897

    Args:
        stages: Number of layers of each stage, front to back; the paper's default is balanced.
        kwargs: Arguments of ``Distill`` and of every method. The depth in ``arch`` is ``sum(stages)``. With
            ``start: middle``, a stage's shared layer starts as the middle layer of the ancestor's corresponding layers,
            with ``mean`` as their mean. The paper does not state its start.
    """

    spec = SPEC
    plain_network = False

    def __init__(self, stages: tuple[int, ...] = (3, 3, 4, 3, 3), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stages = tuple(stages)
        whole = self.parsed_architecture
        depth = sum(stages)
        if whole.depth != depth or whole.stages not in (None, self.stages):
            layers = f"stages {'-'.join(map(str, whole.stages))}" if whole.stages else f"{whole.depth} layers"
            raise UserError(
                f"model.arch: has {layers}, but model.stages {'-'.join(map(str, stages))} have {depth} layers; give "
                f"depth={depth} there, or other model.stages"
            )

    @cached_property
    def architecture(self) -> Architecture:
        """The auxiliary net, whose layers share as ``stages`` say."""
        return self.task_architecture.replace(stages=self.stages)

    def ancestor_shares(self, depth: int) -> Tensor:
        """Every layer of a stage starts from the same ancestor layers, those at the stage's place: (L, depth)."""
        return stage_shares(self.stages, depth, self.start).repeat_interleave(torch.tensor(self.stages), dim=0)

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """One layer per stage, and all parameters outside the layers."""
        tensors = take_layers(self.without_projection(state), first_of_stages(self.stages), self.architecture.layers)
        return Learngene(self.method, self.architecture, tensors, ancestor=self.ancestor or "")
