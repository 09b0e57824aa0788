"""A task: what a method knows of a data set."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from lgx.core.image_size import ImageSize, height_width, image_size
from lgx.core.reading import Reading, ResizeMode

Kind = Literal["classification", "segmentation", "text", "multilabel"]
"""What is predicted: the class of an image, of every pixel, or of a text; or which of several labels an image has."""


class Normalization(NamedTuple):
    """How images are normalized: (image - mean) / std, each channel by itself.

    Attributes:
        mean: Per-channel mean, in units of pixel value / 255.
        std: Per-channel standard deviation, likewise.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def for_channels(self, channels: int) -> "Normalization":
        """The same for another number of channels: gray statistics are repeated, others are averaged."""
        averages = Normalization(*((sum(values) / len(values),) * channels for values in self))
        return self if len(self.mean) == channels else averages

    def __str__(self) -> str:
        mean, std = (", ".join(f"{value:.4g}" for value in values) for values in self)
        return f"mean {mean}, std {std}"


AGREEMENT = "agreement"
"""Main metric of a task without labels: how well a network agrees with its teacher; 1 is the best."""
BALANCED = "balanced_acc"
"""Main metric of a classification where rare classes count as much as frequent ones: mean recall of the classes."""


@dataclass(frozen=True)
class Task:
    """A data set as methods see it; they know nothing else of it.

    Attributes:
        name: Short lower-case name, e.g. ``fashion_mnist``.
        num_classes: Number of classes or, for ``multilabel``, of labels K; 0 for images without labels.
        kind: What is predicted.
        metric: Name of the main metric.
        num_train: Number of training examples.
        in_chans: Channels of the input images.
        img_size: Size of the input images.
        mean: Per-channel mean that the inputs were normalized with, in units of pixel value / 255.
        std: Per-channel standard deviation, likewise.
        class_names: Names in index order; empty where unknown.
        max_len: Longest text, in tokens; 0 for images.
        vocab_size: Number of tokens in the vocabulary of the texts; 0 for images.
        value_range: See :class:`Reading`, as for the next one.
        resize: How images get the size.
    """

    name: str
    num_classes: int
    kind: Kind = "classification"
    metric: str = "acc"
    num_train: int = 0
    in_chans: int = 3
    img_size: ImageSize = 224
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    class_names: tuple[str, ...] = ()
    max_len: int = 0
    vocab_size: int = 0
    value_range: tuple[float, ...] = ()
    resize: ResizeMode = "crop"

    def __post_init__(self) -> None:
        if isinstance(self.img_size, list | tuple):  # files have lists
            object.__setattr__(self, "img_size", image_size(*self.img_size))

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(C, H, W) of its images."""
        return self.in_chans, *height_width(self.img_size)

    @property
    def normalization(self) -> Normalization:
        """Mean and standard deviation of its images."""
        return Normalization(self.mean, self.std)

    @property
    def reading(self) -> Reading:
        """How its images are read."""
        return Reading(self.value_range, self.resize)

    @property
    def is_labeled(self) -> bool:
        """Whether its examples have labels."""
        return self.num_classes > 0

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, for a checkpoint that is loaded with ``weights_only=True``."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


def shared_metric(tasks: Iterable[Task]) -> str:
    """Main metric of several tasks: the common one, else ``score``, the mean of the main metrics."""
    metrics = {task.metric for task in tasks}
    return metrics.pop() if len(metrics) == 1 else "score"
