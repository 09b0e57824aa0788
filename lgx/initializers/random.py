"""The random start that everything is compared with."""

from torch import Tensor

from lgx.architectures.family import Architecture
from lgx.batch import Task
from lgx.initializers.base import Initializer


class RandomStart(Initializer):
    """timm's or transformers' own random initialisation; nothing is taken from anywhere."""

    @property
    def method(self) -> str:
        """``random``."""
        return "random"

    @property
    def head_kind(self) -> None:
        """It has no source."""
        return None

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """Nothing: every parameter keeps its random start."""
        return {}
