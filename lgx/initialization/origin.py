"""What a source says of itself: facts that descendants inherit, and the scores of finished networks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lgx.architectures import Architecture, ViTArchitecture
from lgx.artifacts.learngene import Learngene
from lgx.core.reading import AS_STORED, Reading
from lgx.core.task import Kind, Normalization


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
    """

    num_classes: int | None = None
    kind: Kind | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    label_names: tuple[str, ...] | None = None
    task: str | None = None
    architecture: Architecture | None = None
    reading: Reading = AS_STORED

    @property
    def normalization(self) -> Normalization | None:
        """How its images are normalized; None where unknown, and for texts."""
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
        metric: Name of the score, larger is better.
        scores: The score in validation of each size that was measured.
    """

    metric: str
    scores: Mapping[ViTArchitecture, float]
