"""Let a data module follow the normalization of a start."""

from lightning.pytorch.utilities.rank_zero import rank_zero_warn

from data_modules.base import TaskDataModule
from lgx.core.task import Normalization


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
