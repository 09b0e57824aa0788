"""A network reads images in the normalization of its start."""

from typing import Any

from lightning.pytorch.utilities.rank_zero import rank_zero_warn

from data_modules import TaskDataModule
from lgx.artifacts.metadata_schema import TASK
from lgx.core.schema import check_fields
from lgx.core.task import Normalization
from lgx.methods.base import Method


class StartedMethod(Method):
    """A method whose images are normalized as the start of its network was trained to read them.

    ``data.mean`` and ``data.std`` give another normalization, with a warning. A checkpoint keeps the normalization.

    Args:
        kwargs: Arguments of every method.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._printed: set[str] = set()

    def start_normalization(self) -> tuple[Normalization | None, str] | None:
        """Normalization of the start, None if unknown, and what the start is called; None without a start to follow."""
        return None

    def learn_tasks(self) -> None:
        """See :class:`~lgx.methods.base.Method`; images follow the normalization of the start."""
        super().learn_tasks()
        if not self.weights_follow and (start := self.start_normalization()) is not None:
            self._follow(*start)

    def _follow(self, wanted: Normalization | None, start: str) -> None:
        line = follow_normalization(self.data_module(), wanted, start)
        if line and line not in self._printed:  # a run that is tested learns its tasks again
            self.print(line)
        self._printed.add(line)
        super().learn_tasks()
        if self.teacher is not None and self.task is not None:
            self.teacher = self.teacher.for_task(self.task)

    def describe(self) -> dict[str, Any]:
        """See :class:`~lgx.methods.base.Method`; with the normalization of the images."""
        used = {task.normalization for task in self.tasks.values() if task.kind != "text"}
        own = {key: list(values) for key, values in used.pop()._asdict().items()} if len(used) == 1 else None
        return {**super().describe(), "normalization": own}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """See :class:`~lgx.methods.base.Method`; images are normalized as the checkpoint's network read them."""
        super().on_load_checkpoint(checkpoint)
        own = checkpoint["lgx"].get("normalization")  # checkpoints of lgx 0.1.0 were trained with the data set's own
        if self._trainer is not None and own is not None:
            own = check_fields(own, {key: TASK[key] for key in ("mean", "std")}, "--ckpt_path: normalization", True)
            self._follow(Normalization(tuple(own["mean"]), tuple(own["std"])), "the checkpoint's network")


def follow_normalization(data: TaskDataModule, wanted: Normalization | None, start: str) -> str:
    """Let a data module normalize images as the start of a network was trained to read them.

    Options of the data module that give another normalization are obeyed, with a warning.

    Args:
        data: The data module.
        wanted: Normalization of the start; None where it is unknown.
        start: What the start is called, for the terminal.

    Returns:
        A line for the terminal; empty if nothing changes.
    """
    before = data.task
    if before.kind == "text":
        return ""
    if wanted is None:
        return f"normalize  {before.normalization}, of {before.name}: {start} does not say how it was trained"
    if not data.follow_normalization(*wanted):
        rank_zero_warn(
            f"data: images are normalized with {before.normalization}, but {start} was trained with {wanted}; leave "
            f"out data.mean and data.std to follow it"
        )
        return ""
    if data.task.normalization == before.normalization:
        return ""
    return f"normalize  {data.task.normalization}, of {start}, instead of that of {before.name}"
