"""Pocket Decathlon: ten small image tasks that are made in seconds and need no download.

They mirror the domains of the Visual Decathlon, need different features, and are meant for tests, demonstrations and
first experiments. No claim about the real sets may rest on them.
"""

from typing import Any

from data_modules.suites.pocket.tasks import POCKET_TASKS, PocketTask, is_made, make_task, pocket_folder, pocket_info
from data_modules.suites.suite import Suite, SuiteTask

__all__ = ["POCKET", "POCKET_TASKS", "PocketDecathlon", "PocketTask", "is_made", "make_task", "pocket_info"]


POCKET = Suite[PocketTask](
    name="pocket",
    title="Pocket Decathlon",
    task_names=POCKET_TASKS,
    info=pocket_info,
    module=lambda task, root: PocketDecathlon(task, root=root),
    markers=lambda task: ((f"pocket/{task}/index.json",),),
    prepare=lambda root, task, source: make_task(root, task).is_dir(),
    folder=pocket_folder,
    in_shards=True,
    needs_source=lambda task: False,
)


class PocketDecathlon(SuiteTask):
    """One task of the Pocket Decathlon: 32 x 32 RGB images at ``root/pocket/<task>``.

    ``prepare_data`` makes the task from seeded generators if it is absent, which takes a few seconds.

    Args:
        task: The task; ``world`` is the large one, in the place of ImageNet.
        options: See :class:`~data_modules.shards.module.ShardedImages`.
    """

    suite = POCKET

    def __init__(self, task: PocketTask = "world", **options: Any) -> None:
        super().__init__(task, **options)
