"""Conversion of inputs from one normalization to another."""

from torch import Tensor

from lgx.core.task import Task


def renormalize(inputs: Tensor, task: Task, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Convert inputs that are normalized for a task to another mean and standard deviation.

    Args:
        inputs: Images, (B, C, H, W), or token ids, (B, N), which are never normalized.
        task: The task whose ``mean`` and ``std`` the inputs are normalized with.
        mean: Wanted mean, C values, in units of pixel value / 255.
        std: Wanted standard deviation, C values, likewise.

    Returns:
        (B, C, H, W); the same tensor if nothing changes.
    """
    if task.kind == "text" or (mean, std) == (task.mean, task.std):
        return inputs
    old_mean, old_std, new_mean, new_std = (
        inputs.new_tensor(values).view(1, -1, 1, 1) for values in (task.mean, task.std, mean, std)
    )
    return (inputs * old_std + old_mean - new_mean) / new_std
