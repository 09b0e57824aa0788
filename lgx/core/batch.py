"""One batch of one task."""

from typing import NamedTuple

from torch import Tensor

from lgx.core.task import Kind

IGNORE = 255
"""Target of a pixel or label that losses and metrics ignore."""
IGNORE_TOKEN = -100
"""The same for the next token of a position: torch's own value, because 255 is a token."""


def ignored_target(kind: Kind) -> int | None:
    """The target that losses and metrics of a kind ignore; None if every example has one known class."""
    return {"segmentation": IGNORE, "multilabel": IGNORE, "language": IGNORE_TOKEN}.get(kind)


class Batch(NamedTuple):
    """One batch of one task.

    Attributes:
        inputs: Images, float, normalized with the task's mean and std, (B, C, H, W); or token ids, int64, (B, N),
            padded on the right with the task's ``pad_id``.
        targets: Class indices, int64, (B,); for segmentation one per pixel, (B, H, W), or ``IGNORE``; for several
            labels int64, (B, K): 1 for a present label, ``IGNORE`` for an unknown label, else 0; for ``language`` the
            next token of each position, (B, N), or ``IGNORE_TOKEN``. Meaningless for a task without labels.
        task: Name of the task that every example of the batch belongs to.
    """

    inputs: Tensor
    targets: Tensor
    task: str
