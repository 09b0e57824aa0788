"""One batch of one task."""

from typing import NamedTuple

from torch import Tensor


class Batch(NamedTuple):
    """One batch of one task.

    Attributes:
        inputs: Images, float, normalized with the task's mean and std, (B, C, H, W); or texts, int64, (B, 3, N): token
            ids, attention mask (1 for tokens, 0 for padding on the right) and token types.
        targets: Class indices, int64, (B,); for segmentation one per pixel, (B, H, W), or ``IGNORE``; for several
            labels int64, (B, K): 1 for a present label, ``IGNORE`` for an unknown label, else 0; for ``language`` the
            next token of each position, (B, N), or ``IGNORE_TOKEN``. Meaningless for a task without labels.
        task: Name of the task that every example of the batch belongs to.
    """

    inputs: Tensor
    targets: Tensor
    task: str
