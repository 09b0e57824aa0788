"""Pretrain-finetune: all weights of the source."""

from functools import cached_property

from torch import Tensor

from lgx.architectures import Architecture
from lgx.artifacts.safetensors_files import StartRecord
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import Sizes
from lgx.methods.baselines import PRETRAINED
from lgx.methods.baselines.from_source import FromSource


class Pretrained(FromSource):
    """All weights of the source, for a descendant of the same depth and width (pretrain-finetune).

    Position embedding and patch projection are resampled to the descendant's image and patch size. A GPT-2 may read
    shorter texts than its source. If the source is a language model, the head is random.

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
        name: Name of the method in results. By default the method that started the source (``lgx init``), otherwise
            ``pretrained``.
    """

    shared = False

    def __init__(self, source: str, name: str | None = None) -> None:
        super().__init__(source)
        self.name = name

    @property
    def method(self) -> str:
        """The name given, the method that started the source, or ``pretrained``."""
        return self.name or (self.record.method if self.record else PRETRAINED.name)

    @cached_property
    def record(self) -> StartRecord | None:
        """The start of the source, a folder of ``lgx init``; None for a trained network."""
        return StartRecord.read(self.source)

    def sizes(self) -> Sizes:
        """The size of the source."""
        return Sizes.fixed(self.of_source)

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """All parameters of the source."""
        of_source = self.of_source
        if of_source.depth != architecture.depth:
            raise UserError(
                f"pretrained: {self.source} has {of_source.depth} layers, but the descendant has "
                f"{architecture.depth}; choose the same depth, or weight_selection for a shallower descendant"
            )
        self.check_heads(architecture)
        return dict(self.loaded.tensors)
