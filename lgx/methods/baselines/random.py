"""The random start, the baseline of all comparisons."""

from torch import Tensor, nn

from lgx.architectures import Architecture
from lgx.architectures.library_models import LibraryModel
from lgx.core.task import Task
from lgx.initialization import Head, Initializer, Sizes


class RandomStart(Initializer):
    """The random initialization of timm or transformers."""

    method = "random"

    starts_any_model = True
    is_random = True
    reads_source = False

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """Nothing: every parameter keeps its random start."""
        return {}

    def sizes(self) -> Sizes:
        """Any size."""
        return Sizes.free()

    def start_model(
        self, model: nn.Module, described: LibraryModel, head: Head
    ) -> tuple[dict[str, Tensor], tuple[str, ...]]:
        """Nothing: every parameter keeps its random start."""
        return {}, ()
