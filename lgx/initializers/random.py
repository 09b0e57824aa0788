"""The random start that everything is compared with."""

from torch import Tensor

from lgx.architectures.vit import ViTArchitecture
from lgx.batch import Task
from lgx.initializers.base import Initializer


class RandomStart(Initializer):
    """timm's own random initialisation; nothing is taken from anywhere."""

    @property
    def method(self) -> str:
        """``random``."""
        return "random"

    def __call__(self, architecture: ViTArchitecture, task: Task | None = None) -> dict[str, Tensor]:
        """Nothing: every parameter keeps its random start."""
        return {}
