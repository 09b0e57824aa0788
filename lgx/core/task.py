"""A task, what a method knows of a data set, and how its images are read."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from lgx.core.schema import Field, at_most, list_of

ImageSize = int | tuple[int, int]
"""Side of square images, or height and width, in pixels."""

_SIDE = at_most(65_536, 1)
_PAIR = list_of(_SIDE)
IMAGE_SIZE = Field(
    lambda value: _SIDE.holds(value) or (isinstance(value, list | tuple) and len(value) == 2 and _PAIR.holds([*value])),
    f"{_SIDE.words}, or height and width",
)


def height_width(size: ImageSize) -> tuple[int, int]:
    """Height and width."""
    return size if isinstance(size, tuple) else (size, size)


def image_size(height: int, width: int) -> ImageSize:
    """The size of images of this height and width: one number if both are equal."""
    return height if height == width else (height, width)


def size_text(size: ImageSize) -> str:
    """``64`` or ``96x160``."""
    return "x".join(map(str, size)) if isinstance(size, tuple) else str(size)


def parse_image_size(text: str) -> ImageSize:
    """Inverse of :func:`size_text`; an invalid text raises a ``ValueError``."""
    height, times, width = text.partition("x")
    return image_size(int(height), int(width if times else height))


ResizeMode = Literal["crop", "squash", "letterbox"]
"""How an image gets the size of the task: resized until it covers the size and cropped at the center, resized without
its proportions, or resized until it fits and surrounded with the mean color."""


class Reading(NamedTuple):
    """How image files become pixels of 8 bits.

    Attributes:
        value_range: Values of files of more than 8 bits that become 0 and 255; empty if not given.
        resize: How they get the size of the task.
    """

    value_range: tuple[float, ...] = ()
    resize: ResizeMode = "crop"

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> "Reading":
        """The value in a description of a task; by default the value that older files imply."""
        return cls(tuple(about.get("value_range") or ()), about.get("resize") or "crop")


AS_STORED = Reading()
"""How images are read unless options say otherwise."""


Kind = Literal["classification", "segmentation", "text", "multilabel", "language"]
"""What is predicted: the class of an image, of every pixel, or of a text; which of several labels an image has; or the
next token of a text."""

Pooling = Literal["mean", "cls", "lasttoken"]
"""How the vector of a text is made of its tokens, in the words of sentence-transformers."""

IGNORE = 255
"""Target of a pixel or label that losses and metrics ignore."""
IGNORE_TOKEN = -100
"""The same for the next token of a position: torch's own value, because 255 is a token."""


def ignored_target(kind: Kind) -> int | None:
    """The target that losses and metrics of a kind ignore; None if every example has one known class."""
    return {"segmentation": IGNORE, "multilabel": IGNORE, "language": IGNORE_TOKEN}.get(kind)


def outputs_in_words(kind: Kind, count: int) -> str:
    """``5 classes``; of a language model ``1,000 tokens``."""
    return f"{count:,} tokens" if kind == "language" else f"{count} classes" if count else "no head"


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
        mean, std = ([f"{value:.4g}" for value in values] for values in self)
        return f"mean {', '.join(mean)}, std {', '.join(std)}"


AGREEMENT = "agreement"
"""Main metric of a task without labels: how well a network agrees with its teacher; 1 is the best."""
PERPLEXITY = "perplexity"
"""Main metric of language: e to the mean loss of the tokens; smaller is better."""
BALANCED = "balanced_acc"
"""Main metric of a classification where rare classes count as much as frequent ones: mean recall of the classes."""


@dataclass(frozen=True)
class Task:
    """A data set as methods see it; they know nothing else of it.

    Attributes:
        name: Short lower-case name, e.g. ``fashion_mnist``.
        num_classes: Number of classes or, for ``multilabel``, of labels K; 0 for images without labels; for
            ``language`` the size of the vocabulary.
        kind: What is predicted.
        metric: Name of the main metric.
        num_train: Number of training examples.
        in_chans: Channels of the input images.
        img_size: Size of the input images.
        mean: Per-channel mean that the inputs were normalized with, in units of pixel value / 255.
        std: Per-channel standard deviation, likewise.
        class_names: Names in index order; empty where unknown.
        max_len: Longest text, in tokens; 0 for images.
        vocab_size: Number of tokens in the vocabulary of the network; 0 for images.
        bytes_per_token: UTF-8 bytes of the texts of val and test per predicted token, for bits per byte; 0 if unknown.
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
    bytes_per_token: tuple[float, float] = (0.0, 0.0)
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
    def reads_text(self) -> bool:
        """Whether its inputs are texts."""
        return self.max_len > 0 or self.kind in ("text", "language")

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
