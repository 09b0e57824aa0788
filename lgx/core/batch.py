"""``Batch`` and ``Task``: the only types that data modules and methods share."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from torch import Tensor

Kind = Literal["classification", "segmentation", "text"]
"""What is predicted of an example: its class, the class of every pixel, or the class of a text."""

IGNORE = 255
"""Target of a pixel that counts neither in losses nor in metrics."""


class Batch(NamedTuple):
    """One batch of one task.

    Attributes:
        inputs: Images, float, normalized with the task's mean and std, (B, C, H, W); or token ids, int64, (B, N),
            padded on the right with the vocabulary's last token.
        targets: Class indices, int64, (B,); for segmentation one per pixel, (B, H, W), or ``IGNORE``.
        task: Name of the task that every example of the batch belongs to.
    """

    inputs: Tensor
    targets: Tensor
    task: str


@dataclass(frozen=True)
class Task:
    """A data set as a method sees it; methods never know a data set otherwise.

    Attributes:
        name: Short lower-case name, e.g. ``fashion_mnist``.
        num_classes: Number of classes K.
        kind: What is predicted.
        metric: Name of the main metric.
        num_train: Number of training examples.
        in_chans: Channels of the input images.
        img_size: Height and width of the input images, pixels.
        mean: Per-channel mean that the inputs were normalized with, in units of pixel value / 255.
        std: Per-channel standard deviation, likewise.
        class_names: Names in index order; empty where unknown.
        max_len: Longest text, in tokens; 0 of images.
        vocab_size: Tokens of the vocabulary that the texts are written in; 0 of images.
    """

    name: str
    num_classes: int
    kind: Kind = "classification"
    metric: str = "acc"
    num_train: int = 0
    in_chans: int = 3
    img_size: int = 224
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    class_names: tuple[str, ...] = ()
    max_len: int = 0
    vocab_size: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, fit for a checkpoint that is loaded with ``weights_only=True``."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


def shared_metric(tasks: Iterable[Task]) -> str:
    """Main metric of tasks taken together: theirs if it is the same, else ``score``, the mean of each one's own."""
    metrics = {task.metric for task in tasks}
    return metrics.pop() if len(metrics) == 1 else "score"
