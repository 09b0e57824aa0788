"""The start that Halves gives: the half, repeated."""

from torch import Tensor

from lgx.architectures import Architecture
from lgx.artifacts.learngene import Learngene
from lgx.core.task import Task
from lgx.initialization import Initializer, Origin
from lgx.initialization.expansion import take_layers


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
        """``halves``."""
        return "halves"

    @property
    def stored_parameters(self) -> int:
        """Parameters of the learngene."""
        return self.loaded.num_parameters

    def origin(self) -> Origin:
        """What the learngene file stores."""
        return Origin.of_learngene(self.loaded)

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The layers in turn."""
        layers = [i % self.loaded.num_layers for i in range(architecture.depth)]
        return take_layers(self.loaded.tensors, layers[::-1] if self.backwards else layers)
