"""Pocket Decathlon: ten small image tasks that are made in seconds and need no download.

They mirror the domains of the Visual Decathlon, need different features, and serve tests, demonstrations and first
experiments. They never stand in for a claim about the real sets.
"""

from pathlib import Path
from typing import Any

from data_modules.base import Split
from data_modules.images import Images
from data_modules.pocket.tasks import POCKET_TASKS, PocketTask, is_made, make_task, pocket_folder, pocket_info
from data_modules.sharded import ShardedImages
from lgx.errors import UserError

__all__ = ["POCKET_TASKS", "PocketDecathlon", "PocketTask", "is_made", "make_task", "pocket_info"]


class PocketDecathlon(ShardedImages):
    """One task of the Pocket Decathlon: 32 x 32 RGB images.

    ``prepare_data`` makes the task where it is absent (a few seconds, from seeded generators).

    Args:
        task: Which task; ``world`` is the large one in ImageNet's place.
        root: Folder below which data sets lie; the task lies at ``root/pocket/<task>``.
        options: See :class:`~data_modules.sharded.ShardedImages`.
    """

    def __init__(self, task: PocketTask = "world", **options: Any) -> None:
        if task not in POCKET_TASKS:
            raise UserError(f"data.task: expected one of {', '.join(POCKET_TASKS)}, got {task}")
        self.pocket_task: PocketTask = task
        self.info = pocket_info(task)
        super().__init__(**options)

    @property
    def shard_folder(self) -> Path:
        """Folder of the shards, which may not be written yet."""
        return pocket_folder(self.root, self.pocket_task)

    def prepare_data(self) -> None:
        """Make the task unless it is there."""
        make_task(self.root, self.pocket_task)

    def read(self, split: Split) -> Images:
        """Return the examples of one split.

        Raises:
            UserError: If the task was not made yet, or a shard is damaged.
        """
        if not is_made(self.root, self.pocket_task):
            raise UserError(
                f"{self.info.name}: nothing at {self.shard_folder}; run `lgx data prepare pocket --root {self.root}`"
            )
        return super().read(split)
