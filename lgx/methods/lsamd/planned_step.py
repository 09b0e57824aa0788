"""One training step of LSAMD as a plan counts it."""

from collections.abc import Mapping
from typing import cast

from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from lgx.methods.lsamd.super_ancestor import SuperAncestor
from lgx.methods.planned_step import PlannedStep


class PlannedSelection(PlannedStep):
    """A super ancestor whose layers all use the data set's own block, which costs most.

    The ancestor is not read: its images are assumed to be normalized like those of the first task.
    """

    notes = ("Counted as if every layer took the data set's own block, which costs most.",)

    def build(self) -> nn.Module:
        """The super ancestor at a random start."""
        base = cast(VisionTransformer, self.method.architecture.replace(kind="classification").build())
        base.reset_classifier(0)
        tasks = list(self.method.tasks.values())
        self.method.base_mean, self.method.base_std = tasks[0].mean, tasks[0].std
        return _OwnBlocks(base, tasks, "batch", self.method.gating.gate)

    def learngene(self, state: Mapping[str, Tensor]) -> None:
        """None: the selection decides its size."""
        return None


class _OwnBlocks(SuperAncestor):
    def _majority(self, prefers_base: Tensor) -> bool:
        """The own block, whatever the images prefer, (B,)."""
        return False
