"""The interface of all initializers, and the record of a source."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from lgx.architectures import Architecture, parse_for
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import PretrainedNetwork
from lgx.artifacts.safetensors_files import StartRecord
from lgx.artifacts.vector_space import Space
from lgx.core.readable import lower_is_better
from lgx.core.task import AS_STORED, Kind, Normalization, Reading, Task
from lgx.errors import UserError
from lgx.initialization.sizes import Sizes

if TYPE_CHECKING:
    from lgx.initialization.sizing import Budget


@dataclass(frozen=True)
class Origin:
    """Facts that a descendant inherits with its weights.

    Attributes:
        num_classes: Number of classes of the source's head; None without a source, 0 for a task of images without
            classes.
        kind: What the source's head predicts; None without a source.
        mean: Per-channel mean of its inputs; None if unknown.
        std: Per-channel standard deviation of its inputs; None if unknown.
        label_names: Names of the classes; None if unknown.
        task: Name of the task that it was trained on; None if unknown.
        architecture: The network that the weights are taken from; None without a source, or if it is unknown.
        reading: How its images are read.
        half: Type of 16 bits of the source's network of texts, in which descendants are written; None for float32.
    """

    num_classes: int | None = None
    kind: Kind | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    label_names: tuple[str, ...] | None = None
    task: str | None = None
    architecture: Architecture | None = None
    reading: Reading = AS_STORED
    half: torch.dtype | None = None

    @property
    def normalization(self) -> Normalization | None:
        """Normalization of its images; None if unknown, and for texts."""
        return Normalization(self.mean, self.std) if self.mean and self.std else None

    @classmethod
    def of_learngene(cls, learngene: Learngene) -> "Origin":
        """Facts that a learngene file stores about its task."""
        task = learngene.task
        return cls(
            num_classes=task.get("num_classes") or learngene.architecture.num_classes,
            kind=learngene.architecture.kind,
            mean=tuple(task["mean"]) if task.get("mean") else None,
            std=tuple(task["std"]) if task.get("std") else None,
            label_names=tuple(task["class_names"]) if task.get("class_names") else None,
            task=task.get("name"),
            architecture=learngene.architecture,
            reading=Reading.of(task),
        )


class Front(NamedTuple):
    """Scores of finished networks of several sizes.

    Attributes:
        metric: Name of the score.
        scores: Validation score of each measured size.
        examples: Validation examples; 0 if unknown.
    """

    metric: str
    scores: Mapping[Architecture, float]
    examples: int = 0

    def gain(self, size: Architecture) -> float:
        """The score of a size, with the sign that makes larger values better."""
        return -self.scores[size] if lower_is_better(self.metric) else self.scores[size]


Head = Literal["keep", "new"]
"""Keep the source's head, or use a new random head."""


class Initializer(ABC):
    """Initializes descendants: ``initializer(architecture, task) -> state dict``.

    The names of the state dict are timm's, for text models transformers'. Parameters that it lacks keep the model's
    random initialization.

    Attributes:
        shared: Whether one stored source initializes descendants of several architectures; False if each architecture
            needs its own.
        predicts_heads: Whether it can make a head for new classes, as a hypernetwork does.
        reads_source: Whether it reads a ``source``, its first argument; False for a start in closed form.
    """

    shared: ClassVar[bool] = True
    predicts_heads: ClassVar[bool] = False
    reads_source: ClassVar[bool] = True

    @property
    @abstractmethod
    def method(self) -> str:
        """Name of the method in results."""

    def named(self, architecture: Architecture) -> str:
        """Name in results of a descendant of this architecture; differs from :attr:`method` for a variant."""
        return self.method

    @property
    def record(self) -> StartRecord | None:
        """The start of its source, if the weights are copied from that network; otherwise None."""
        return None

    @property
    def front(self) -> Front | None:
        """The scores of finished networks; None if descendants are starts."""
        return None

    def space(self, architecture: Architecture) -> Space | None:
        """Map of the vectors of a descendant into the space of its ancestor's; None without one."""
        return None

    def finished(self, arch: str | None, budgets: Sequence["Budget"]) -> PretrainedNetwork | None:
        """A finished network that the options choose, plain or not; None where descendants are started.

        Args:
            arch: Name or specification that the user gives.
            budgets: Upper limits.
        """
        return None

    def named_size(self, text: str, num_classes: int | None) -> Architecture:
        """Read the architecture of a descendant.

        Args:
            text: Name or specification; missing values, such as the form, come from the source.
            num_classes: Classes of its head; None for the source's.
        """
        origin = self.origin()
        kind = origin.kind
        classes = num_classes or origin.num_classes
        if kind == "language" and classes != origin.num_classes:  # a language model becomes a classifier
            kind = "text"
        return parse_for(text, kind, classes, origin.architecture)

    def size_text(self, architecture: Architecture) -> str:
        """The text of a descendant's size, which :meth:`named_size` reads."""
        return architecture.spec(architecture.source_keys)

    @property
    def stored_parameters(self) -> int:
        """Number of parameters that must be stored to initialize any number of descendants."""
        return 0

    @abstractmethod
    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """Predict, select or copy the parameters of one descendant.

        Args:
            architecture: The descendant's architecture.
            task: The descendant's task, for task-aware methods.

        Returns:
            Parameters under the model's names; some may be missing.

        Raises:
            UserError: If the architecture does not suit the source.
        """

    def source_layers(self, depth: int) -> Sequence[int] | None:
        """The source's layer of each layer of a descendant of this depth; None if layers are not copied one by one."""
        return None

    @classmethod
    def check_source(cls, source: str, method: str, maker: str | None) -> None:
        """Refuse a source of another method; by default every source is accepted.

        Args:
            source: The user's name of the source.
            method: Name of the method whose initializer will read the source.
            maker: The method of the source if it is a learngene file, else None.
        """
        return None

    def origin(self) -> Origin:
        """Facts that a descendant inherits beside the weights; empty without a source."""
        return Origin()

    def normalization(self, task: Task | None = None) -> Normalization | None:
        """Normalization of the source's training images; None if unknown, and for texts.

        Args:
            task: The descendant's task.
        """
        return self.origin().normalization

    def sizes(self) -> Sizes:
        """Sizes of descendants that it can fill, from which a budget chooses one.

        Raises:
            UserError: If it has no range of sizes, or only starts text models.
        """
        raise UserError(f"{self.method}: does not support budgets; give --arch")

    def notes(self, architecture: Architecture, taken: Collection[str]) -> tuple[str, ...]:
        """Further lines for the terminal.

        Args:
            architecture: The descendant's architecture.
            taken: Names of the parameters that it gave.
        """
        return ()
