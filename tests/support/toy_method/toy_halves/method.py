"""Halves: the learngene is the first half of a distilled network."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from lgx.artifacts.learngene import Learngene
from lgx.components.teacher import TeacherRequest
from lgx.core.batch import Batch
from lgx.initialization.expansion import take_layers
from lgx.methods.base import Method
from toy_halves import SPEC


class Halves(Method):
    """Train a network to predict the teacher's logits, and keep its first half.

    Args:
        guide: The teacher: learngene file, folder, checkpoint or timm model name; none trains on labels.
        kwargs: Arguments of every method.
    """

    spec = SPEC
    teacher_option = "guide"

    def __init__(self, guide: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.guide = guide

    def teacher_request(self) -> TeacherRequest | None:
        """The guide."""
        return TeacherRequest(self.guide, self.task) if self.guide and self.task else None

    def build_network(self) -> nn.Module:
        """A randomly started network."""
        return self.architecture.build()

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """Squared distance to the teacher's logits, or cross-entropy without a teacher."""
        logits = self(batch.inputs)
        if self.teacher is None:
            return {"loss": self.label_loss(logits, batch.targets)}
        return {"loss": torch.nn.functional.mse_loss(logits, self.teacher(batch.inputs))}

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """The first half of the layers, and all parameters outside the layers."""
        layers = list(range(self.architecture.depth // 2))
        return Learngene(self.method, self.architecture, take_layers(state, layers), ancestor=self.guide or "")
