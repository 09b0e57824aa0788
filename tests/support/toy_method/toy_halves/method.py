"""Halves: the learngene is the first half of a distilled network; a descendant starts from the half, repeated."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from lgx.architectures import Architecture
from lgx.artifacts.learngene import Learngene
from lgx.components.teacher import TeacherRequest
from lgx.core.batch import Batch
from lgx.core.task import Task
from lgx.initialization import Initializer, Origin
from lgx.initialization.expansion import take_layers
from lgx.methods.base import Method
from toy_halves import SPEC


class Halves(Method):
    """Train a network to predict the teacher's logits, and keep its first half.

    Args:
        guide: The teacher: learngene file, folder, checkpoint or timm model name.
        kwargs: Arguments of every method.
    """

    spec = SPEC

    def __init__(self, guide: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.guide = guide

    def teacher_request(self) -> TeacherRequest | None:
        return TeacherRequest(self.guide, self.task) if self.task else None

    def build_network(self) -> nn.Module:
        return self.architecture.build()

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": nn.functional.mse_loss(self(batch.inputs), self.teacher(batch.inputs))}

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        layers = list(range(self.architecture.depth // 2))
        return Learngene(self.method, self.architecture, take_layers(state, layers), ancestor=self.guide)


class RepeatedHalf(Initializer):
    """Repeat the layers of the learngene until the descendant is full.

    Args:
        source: Learngene file.
        backwards: Whether to start with the last layer.
    """

    def __init__(self, source: str, backwards: bool = False) -> None:
        self.source, self.backwards = source, backwards
        self.loaded = Learngene.load(source)

    @property
    def method(self) -> str:
        return "halves"

    @property
    def stored_parameters(self) -> int:
        return self.loaded.num_parameters

    def origin(self) -> Origin:
        return Origin.of_learngene(self.loaded)

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        layers = [i % self.loaded.num_layers for i in range(architecture.depth)]
        return take_layers(self.loaded.tensors, layers[::-1] if self.backwards else layers)
