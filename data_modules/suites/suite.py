"""``Suite``: data sets that are prepared together, such as the ten tasks of a decathlon."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from data_modules.base import DatasetInfo, Split
from data_modules.images.examples import Images
from data_modules.images.module import ImageDataModule
from data_modules.shards.module import ShardedImages
from lgx.core.markers import Markers, any_exist
from lgx.errors import UserError

TaskT = TypeVar("TaskT", bound=str)


@dataclass(frozen=True)
class Suite(Generic[TaskT]):
    """Tasks that are prepared together. Each of them is a data set of its own, called ``<suite>_<task>``.

    Attributes:
        name: Name in ``lgx data prepare``.
        title: Name in messages.
        task_names: Names of the tasks within the suite.
        info: Gives the facts of a task, which are known before it is prepared.
        module: (task, root) -> the data module of a task.
        markers: (task) -> what exists below ``root`` if the task is there.
        prepare: (root, task, source) brings a task to its place, if it is not there yet, and checks it. Returns False
            if the files of the task are missing; raises a UserError if they are damaged.
        folder: (root, task) -> folder of a task's images.
        in_shards: Whether ``prepare`` writes a task as shards.
        needs_source: Whether the archives of a task must be given; other tasks are made by ``prepare``.
        check: (task, source) raises a UserError if ``source`` lacks a file of a task; called for all tasks before any
            is prepared.
        what_to_fetch: (names of data sets, root) -> one sentence: which archives hold them, and what to run then.
    """

    name: str
    title: str
    task_names: tuple[TaskT, ...]
    info: Callable[[TaskT], DatasetInfo]
    module: Callable[[TaskT, str], ImageDataModule]
    markers: Callable[[TaskT], Markers]
    prepare: Callable[[str | Path, TaskT, str | None], bool]
    folder: Callable[[str | Path, TaskT], Path]
    in_shards: bool
    needs_source: Callable[[TaskT], bool]
    check: Callable[[TaskT, str | None], None] = lambda task, source: None
    what_to_fetch: Callable[[Sequence[str], str | Path], str] = lambda names, root: ""

    @cached_property
    def tasks(self) -> dict[str, TaskT]:
        """Name of the data set -> name of the task within the suite."""
        return {self.info(task).name: task for task in self.task_names}

    def is_present(self, root: str | Path, task: TaskT) -> bool:
        """Whether a task is below ``root``."""
        return any_exist(Path(root), self.markers(task))


class SuiteTask(ShardedImages):
    """Base of the data modules of one task of a suite that is stored as shards.

    A subclass sets ``suite``, and its constructor names the tasks.

    Args:
        task: The task.
        options: See :class:`~data_modules.shards.module.ShardedImages`.

    Attributes:
        suite: The suite.
        task_name: The task.
    """

    suite: ClassVar[Suite[Any]]

    def __init__(self, task: str, **options: Any) -> None:
        known = list(self.suite.tasks.values())
        if task not in known:
            raise UserError(f"data.task: expected one of {', '.join(known)}, got {task}")
        self.task_name = task
        self.info = self.suite.info(task)
        super().__init__(**options)

    @property
    def folder(self) -> Path:
        """Folder of the shards, which may not be written yet."""
        return self.suite.folder(self.root, self.task_name)

    def prepare_data(self) -> None:
        """Make the task if it is absent and needs no archives."""
        if not self.suite.needs_source(self.task_name):
            self.suite.prepare(self.root, self.task_name, None)

    def read(self, split: Split) -> Images:
        """Return the examples of one split.

        Raises:
            UserError: If the task was not prepared yet, or a shard is damaged.
        """
        if not self.suite.is_present(self.root, self.task_name):
            source = " --source FOLDER" if self.suite.needs_source(self.task_name) else ""
            command = f"lgx data prepare {self.info.name} --root {self.root}{source}"
            raise UserError(f"{self.info.name}: nothing at {self.folder}; run `{command}`")
        return super().read(split)
