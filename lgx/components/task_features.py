"""Sum a teacher's features over the examples of a task, for the task's embedding (TAL, Sec. 4)."""

from collections.abc import Iterable

import torch
from torch import Tensor

from lgx.components.teacher import Teacher


def sum_features(teacher: Teacher, batches: Iterable[Tensor]) -> tuple[Tensor, int]:
    """Sum the teacher's features over inputs; the embedding of a task is the mean.

    Args:
        teacher: The frozen network.
        batches: Images normalized for its task, (B, C, H, W) each, or token ids, (B, N) each.

    Returns:
        The sum in float64, (T,), and the number of inputs.
    """
    total, count = torch.zeros(teacher.width, dtype=torch.float64), 0
    for inputs in batches:
        total += teacher.features(inputs).double().sum(dim=0).cpu()
        count += len(inputs)
    return total, count
