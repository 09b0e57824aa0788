"""Normalization of images: conversion of inputs, and following the normalization of a start."""

from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor

from data_modules.base import TaskDataModule
from lgx.core.task import Normalization, Task


def renormalize(inputs: Tensor, task: Task, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Convert inputs that are normalized for a task to another mean and standard deviation.

    Args:
        inputs: Images, (B, C, H, W), or token ids, (B, N), which are never normalized.
        task: The task whose ``mean`` and ``std`` the inputs are normalized with.
        mean: Wanted mean, C values, in units of pixel value / 255.
        std: Wanted standard deviation, C values, in the same units.

    Returns:
        (B, C, H, W); the same tensor if nothing changes.
    """
    if task.reads_text or (mean, std) == (task.mean, task.std):
        return inputs
    old_mean, old_std, new_mean, new_std = (
        inputs.new_tensor(values).view(1, -1, 1, 1) for values in (task.mean, task.std, mean, std)
    )
    return (inputs * old_std + old_mean - new_mean) / new_std


def follow_normalization(data: TaskDataModule, wanted: Normalization | None, start: str) -> str:
    """Let a data module use the normalization with which a start was trained.

    A different normalization in the data module's options is kept, with a warning.

    Args:
        data: The data module.
        wanted: Normalization of the start; None where it is unknown.
        start: What the start is called, for the terminal.

    Returns:
        A line for the terminal; empty if nothing changes.
    """
    before = data.task
    if before.reads_text:
        return ""
    if wanted is None:
        return f"normalize  {before.normalization}, of {before.name}: {start} does not contain its normalization"
    if not data.follow_normalization(*wanted):
        rank_zero_warn(
            f"data: images are normalized with {before.normalization}, but {start} was trained with {wanted}; leave "
            f"out data.mean and data.std to follow it"
        )
        return ""
    if data.task.normalization == before.normalization:
        return ""
    return f"normalize  {data.task.normalization}, of {start}, instead of that of {before.name}"
