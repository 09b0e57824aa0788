"""Pretrain-finetune: all weights of the source."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast

from torch import Tensor

from lgx.architectures import Architecture, parse_any_architecture
from lgx.artifacts.safetensors_files import ARCHITECTURE_KEY, StartRecord, half_type, read_safetensors
from lgx.artifacts.safety import AGAIN, TASK, check_weights
from lgx.artifacts.sources import kind_of
from lgx.core.schema import check_fields
from lgx.core.task import Kind, Reading, Task
from lgx.errors import UserError
from lgx.host.safety import parse_json
from lgx.initialization import Origin, Sizes
from lgx.methods.baselines import PRETRAINED
from lgx.methods.baselines.from_source import FromSource


class Pretrained(FromSource):
    """All weights of the source, for a descendant of the same depth and width (pretrain-finetune).

    Position embedding and patch projection are resampled to the descendant's image and patch size. A GPT-2 may read
    shorter texts than its source. If the source is a language model, the head is random.

    Args:
        source: Learngene file of a whole network, folder or weights file that ``lgx init`` wrote, checkpoint, or timm
            model name.
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
        """The start of the source, a folder or weights file of ``lgx init``; None for a trained network."""
        return StartRecord.read(self.source)

    @property
    def stored_parameters(self) -> int:
        """All parameters of the source."""
        return super().stored_parameters if self._file is None else sum(t.numel() for t in self._file[0].values())

    def origin(self) -> Origin:
        """The source's normalization, classes and kind; from the metadata or names of a weights file."""
        if self._file is None:
            return super().origin()
        tensors, metadata = self._file
        mean, std, values = (_stored(metadata, key, self.source) for key in ("mean", "std", "value_range"))
        text = metadata.get(ARCHITECTURE_KEY)
        architecture = parse_any_architecture(text) if text else None
        head = tensors.get("head.bias" if architecture is None else f"{architecture.head}weight")
        return Origin(
            num_classes=None if head is None else next(iter(head.shape), 0),
            kind=cast(Kind, metadata.get("kind", "classification")),
            mean=mean,
            std=std,
            reading=Reading(tuple(values or ()), _stored(metadata, "resize", self.source) or "crop"),
            half=half_type(tensors),
        )

    @cached_property
    def _file(self) -> tuple[dict[str, Tensor], dict[str, str]] | None:
        """Tensors and metadata of a bare weights file, which need not say its architecture; None for other sources."""
        if kind_of(self.source) != "weights" or not self.source.endswith(".safetensors"):
            return None
        tensors, metadata = read_safetensors(self.source)
        check_weights(tensors, self.source)
        return tensors, metadata

    def sizes(self) -> Sizes:
        """The size of the source."""
        if self._file is not None:
            raise UserError(f"{self.source}: a weights file does not contain its size; give --arch instead of a budget")
        return Sizes.fixed(self.of_source)

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """All parameters of the source."""
        if self._file is not None:
            tensors, metadata = self._file
            if ARCHITECTURE_KEY in metadata:
                self._check_size(parse_any_architecture(metadata[ARCHITECTURE_KEY]), architecture)
            return tensors
        self._check_size(self.loaded.require_architecture("pretrained"), architecture)
        return dict(self.loaded.tensors)

    def _check_size(self, of_source: Architecture, architecture: Architecture) -> None:
        """Refuse a descendant with another depth or number of heads than the source."""
        if of_source.depth != architecture.depth:
            raise UserError(
                f"pretrained: {self.source} has {of_source.depth} layers, but the descendant has "
                f"{architecture.depth}; choose the same depth, or weight_selection for a shallower descendant"
            )
        self.check_heads(architecture, of_source)


def _stored(metadata: Mapping[str, str], key: str, location: str) -> Any:
    """The record of images in the metadata of a weights file of `lgx init`; None if missing."""
    if key not in metadata:
        return None
    location = f"{location}: its metadata is damaged"
    values = check_fields({key: parse_json(metadata[key], f"{location}: {key}", AGAIN)}, {key: TASK[key]}, location)
    return tuple(values[key]) if isinstance(values[key], list) else values[key]
