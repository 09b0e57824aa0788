"""``Suite``: data sets that are prepared together, such as the ten tasks of a decathlon."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Generic, TypeVar

from data_modules.base import SPLITS, DatasetInfo, Split
from data_modules.images.examples import Images
from data_modules.images.module import ImageDataModule
from data_modules.shards.index import is_complete
from data_modules.shards.module import ShardedImages
from data_modules.shards.writing import write_shards
from lgx.core.markers import Markers, any_exist
from lgx.errors import UserError
from lgx.host.files import atomic_path
from lgx.host.locks import changing

TaskT = TypeVar("TaskT", bound=str)


class Suite(ABC, Generic[TaskT]):
    """Tasks that are prepared together. Each task is a data set with the name ``<suite>_<task>``.

    Attributes:
        name: Name in ``lgx data prepare``.
        title: Name in messages.
        task_names: Names of the tasks within the suite.
        in_shards: Whether a task is prepared as shards.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    task_names: tuple[TaskT, ...]
    in_shards: ClassVar[bool] = False

    @cached_property
    def tasks(self) -> dict[str, TaskT]:
        """Name of the data set -> name of the task within the suite."""
        return {self.info(task).name: task for task in self.task_names}

    @abstractmethod
    def info(self, task: TaskT) -> DatasetInfo:
        """Facts of a task, known before it is prepared."""

    @abstractmethod
    def module(self, task: TaskT, root: str) -> ImageDataModule:
        """The data module of a task."""

    @abstractmethod
    def markers(self, task: TaskT) -> Markers:
        """What exists below ``root`` if the task is there."""

    @abstractmethod
    def prepare(self, root: str | Path, task: TaskT, source: str | Path | None = None) -> bool:
        """Bring a task to its place below ``root``, if it is not there yet, and check it.

        Args:
            root: Folder that contains the data sets.
            task: The task.
            source: Folder with the user's archives.

        Raises:
            UserError: If they are damaged; of missing ones the result is False.
        """

    def check(self, task: TaskT, source: str | Path | None) -> None:
        """Refuse a ``source`` that lacks a file of a task; called for all tasks before any is prepared."""

    def what_to_fetch(self, names: Sequence[str], root: str | Path) -> str:
        """One sentence: which archives hold these data sets, and what to run then."""
        return ""

    def is_present(self, root: str | Path, task: TaskT) -> bool:
        """Whether a task is below ``root``."""
        return any_exist(Path(root), self.markers(task))


class ShardedSuite(Suite[TaskT]):
    """A suite whose tasks are written as shards to ``root/<suite>/<task>``."""

    in_shards = True

    @abstractmethod
    def images(self, task: TaskT, source: str | Path | None, scratch: Path) -> Mapping[Split, Images]:
        """The images of every split of a task; archives are unpacked into ``scratch``."""

    def needs_source(self, task: TaskT) -> bool:
        """Whether the archives of a task must be given; other tasks are made."""
        return False

    def folder(self, root: str | Path, task: TaskT) -> Path:
        """Folder of a task's shards."""
        return Path(root) / self.name / task

    def markers(self, task: TaskT) -> Markers:
        """See :class:`Suite`."""
        return ((f"{self.name}/{task}/index.json",),)

    def prepare(self, root: str | Path, task: TaskT, source: str | Path | None = None) -> bool:
        """Write the shards of a task, unless they are there already.

        Several processes may call it at once: the first one writes them, and the others wait.
        """
        folder, info = self.folder(root, task), self.info(task)
        if is_complete(folder):
            return True
        self.check(task, source)
        with changing(folder.parent):
            if is_complete(folder):
                return True
            if folder.exists():
                raise UserError(f"{folder} exists but does not contain {info.name}; move it away and run again")
            with TemporaryDirectory(dir=folder.parent) as scratch, atomic_path(folder) as temporary:
                images = self.images(task, source, Path(scratch))
                for split in SPLITS:
                    write_shards(images[split], temporary, split, info, shard_size=2000)
        return True


class SuiteTask(ShardedImages):
    """Base of the data modules of one task of a suite that is stored as shards.

    A subclass sets ``suite``, and its constructor names the tasks and passes the options of
    :class:`~data_modules.shards.module.ShardedImages`.
    """

    suite: ClassVar[ShardedSuite[Any]]

    def __init__(self, task: str, **options: Any) -> None:
        known = self.suite.task_names
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
            self.suite.prepare(self.root, self.task_name)

    def read(self, split: Split) -> Images:
        """See :class:`~data_modules.images.module.ImageDataModule`; the task must be prepared."""
        if not self.suite.is_present(self.root, self.task_name):
            source = " --source FOLDER" if self.suite.needs_source(self.task_name) else ""
            command = f"lgx data prepare {self.info.name} --root {self.root}{source}"
            raise UserError(f"{self.info.name}: nothing at {self.folder}; run `{command}`")
        return super().read(split)
