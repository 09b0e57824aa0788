"""What an initializer's source knows beside its weights: classes, normalisation, names."""

from dataclasses import dataclass, replace

from lgx.batch import Kind
from lgx.initializers.base import Initializer
from lgx.initializers.hypernet import HypernetPrediction
from lgx.initializers.linear import LinearExpansion
from lgx.initializers.pretrained import FromSource, Pretrained
from lgx.initializers.stagewise import StagewiseExpansion
from lgx.learngene import Learngene


@dataclass(frozen=True)
class Origin:
    """Facts that a descendant inherits with its weights.

    Attributes:
        num_classes: Classes of the source's head; None without a source, 0 where a task is known by its images alone.
        kind: What the source's head predicts; None without a source.
        mean: Per-channel mean of its inputs; None where unknown.
        std: Per-channel standard deviation of its inputs; None where unknown.
        label_names: Names of the classes; None where unknown.
        task: Name of the task that it was trained on; None where unknown.
    """

    num_classes: int | None = None
    kind: Kind | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    label_names: tuple[str, ...] | None = None
    task: str | None = None


def origin_of(initializer: Initializer) -> Origin:
    """Facts about the source of an initializer."""
    if isinstance(initializer, HypernetPrediction):
        learngene = initializer.learngene
        if learngene is None:
            return Origin(num_classes=initializer.loaded.config.num_classes, kind="classification")
        if initializer.task is None or initializer.embedding() is None:
            return _of_learngene(learngene)
        task = initializer.known_tasks.tasks.get(initializer.task)
        if task is None:  # known by bare images alone
            return Origin(num_classes=0, kind=initializer.head_kind, task=initializer.task)
        return _of_learngene(replace(learngene, task=task))
    if isinstance(initializer, StagewiseExpansion | LinearExpansion):
        return _of_learngene(initializer.loaded)
    if isinstance(initializer, FromSource):
        if isinstance(initializer, Pretrained) and initializer.bare is not None:
            head = initializer.bare.get("head.bias", initializer.bare.get("score.weight"))
            return Origin(num_classes=None if head is None else next(iter(head.shape), 0), kind=initializer.head_kind)
        source = initializer.loaded
        classes = source.architecture.num_classes if source.architecture and source.has_head else 0
        return Origin(num_classes=classes or None, kind=initializer.head_kind, mean=source.mean, std=source.std)
    return Origin()


def _of_learngene(learngene: Learngene) -> Origin:
    task = learngene.task
    return Origin(
        num_classes=task.get("num_classes") or learngene.architecture.num_classes,
        kind=learngene.architecture.kind,
        mean=tuple(task["mean"]) if task.get("mean") else None,
        std=tuple(task["std"]) if task.get("std") else None,
        label_names=tuple(task["class_names"]) if task.get("class_names") else None,
        task=task.get("name"),
    )
