"""One batch of one task."""

from typing import NamedTuple

from torch import Tensor

IGNORE = 255
"""Target of a pixel or label that losses and metrics ignore."""


class Batch(NamedTuple):
    """One batch of one task.

    Attributes:
        inputs: Images, float, normalized with the task's mean and std, (B, C, H, W); or token ids, int64, (B, N),
            padded on the right with the vocabulary's last token.
        targets: Class indices, int64, (B,); for segmentation one per pixel, (B, H, W), or ``IGNORE``; for several
            labels int64, (B, K): 1 for a present label, ``IGNORE`` for an unknown label, else 0. Meaningless for a task
            without labels.
        task: Name of the task that every example of the batch belongs to.
    """

    inputs: Tensor
    targets: Tensor
    task: str
