"""Chance level of accuracy: what guessing a class of each example gives."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from data_modules.catalog import infos
from lgx.core.rows import Row
from lgx.results.run_records import RunRecord

_GUESSED = ("acc", "acc1")
"""Metrics whose value for guesses follows from the number of classes."""
_SPLITS = ("train", "val", "test")


def chance_levels(rows: Iterable[Row], folders: Mapping[str, Path]) -> dict[str, float]:
    """Accuracy of guessing with equal probability of each class, in percent, by task.

    The number of classes is that which a run stored when it ended. For rows without their run it is that of lgx's data
    set of the same name, if the number of measured examples is also the same.

    Args:
        rows: Rows of any metric; tasks with rows of other metrics than accuracy are left out.
        folders: Folder of each run by the run's name.
    """
    classes: dict[str, int] = {}
    found = [row for row in rows if row.metric in _GUESSED]
    for run in dict.fromkeys(row.run for row in found):
        stored = RunRecord(folders[run]).summary.get("classes") if run in folders else None
        if isinstance(stored, Mapping):
            classes |= {str(task): count for task, count in stored.items() if type(count) is int and count > 1}
    known = {info.name: info for info in infos() if info.kind != "segmentation"}
    for row in found:
        info = known.get(row.task)
        if info and row.split in _SPLITS and info.sizes[_SPLITS.index(row.split)] == row.n:
            classes.setdefault(row.task, info.num_classes)
    return {row.task: 100 / classes[row.task] for row in found if row.task in classes}
