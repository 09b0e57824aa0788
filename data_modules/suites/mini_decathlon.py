"""The mini-Decathlon: small subsets of real image sets, one folder of shards each.

The user provides the archives; nothing is downloaded. Most of the sets state no license, so that none is part of this
package.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from data_modules.base import DatasetInfo, Split
from data_modules.files.errors import guarded
from data_modules.images.examples import Images
from data_modules.suites import mini_archives as sources
from data_modules.suites.pocket.tasks import pictures
from data_modules.suites.suite import ShardedSuite, SuiteTask
from lgx.errors import UserError

MiniTask = Literal[
    "cifar10", "gtsrb", "dtd10", "flowers12", "omniglot", "digits", "tiny_imagenet", "fashion_mnist", "fer2013"
]
MINI_TASKS: tuple[MiniTask, ...] = get_args(MiniTask)
Channels = tuple[float, float, float]


@dataclass(frozen=True)
class MiniFacts:
    """The source of one task.

    Attributes:
        num_classes: Number of classes.
        sizes: Images of (train, val, test).
        mean: Per-channel mean of the training images at 32 px, in [0, 1].
        std: Per-channel standard deviation, likewise.
        files: The archives, in a folder with the task's name.
        read: Unpacks the archives of that folder into another one and returns the images of every split; None for
            scikit-learn's digits.
        splits: One sentence on the splits.
        license: As the publishers state it.
    """

    num_classes: int
    sizes: tuple[int, int, int]
    mean: Channels
    std: Channels
    files: tuple[str, ...]
    read: Callable[[Path, Path], sources.Splits] | None
    splits: str
    license: str = "none stated"


TREES = ("train.zip", "test.zip")
HELD_TENTH = "own train (a stratified tenth held out as val) and test; train holds no image of test"
FACTS: dict[MiniTask, MiniFacts] = {
    "cifar10": MiniFacts(10, (45_000, 5_000, 10_000), (0.4912, 0.482, 0.4464), (0.2453, 0.2429, 0.2606),
        TREES, sources.class_trees, HELD_TENTH),
    "gtsrb": MiniFacts(43, (3_010, 447, 843), (0.3417, 0.3287, 0.3329), (0.2721, 0.2694, 0.27),
        ("gtsrb_100_per_class.zip",), sources.tracks, "whole tracks: a fifth test, a tenth val"),
    "dtd10": MiniFacts(10, (840, 120, 240), (0.5119, 0.4709, 0.43), (0.2529, 0.2357, 0.244),
        ("dtd10_short128.zip",), sources.one_tree, "stratified: a fifth test, a tenth val", "research only"),
    "flowers12": MiniFacts(12, (647, 72, 240), (0.4463, 0.4449, 0.286), (0.269, 0.2416, 0.2553),
        TREES, sources.class_trees, HELD_TENTH),
    "omniglot": MiniFacts(242, (2_662, 968, 1_210), (0.9177,) * 3, (0.2361,) * 3,
        ("images_background_small1.zip", "images_background_small2.zip"),
        sources.drawers, "by drawer: 1-11 train, 12-15 val, 16-20 test", "MIT"),
    "digits": MiniFacts(10, (1_258, 180, 359), (0.3095,) * 3, (0.3489,) * 3,
        (), None, "disjoint, class-stratified", "CC BY 4.0"),
    "tiny_imagenet": MiniFacts(200, (8_999, 1_000, 10_000), (0.4822, 0.4503, 0.3996), (0.261, 0.253, 0.2671),
        ("train_50_per_class.zip", "val_all.zip", "val_annotations.txt", "wnids.txt"), sources.tiny_imagenet,
        "50 training images a class (a stratified tenth held out as val); test is the official val"),
    "fashion_mnist": MiniFacts(10, (13_500, 1_500, 10_000), (0.2878,) * 3, (0.3461,) * 3,
        TREES, sources.class_trees, HELD_TENTH, "MIT"),
    "fer2013": MiniFacts(7, (6_192, 1_236, 1_255), (0.5136,) * 3, (0.2976,) * 3,
        ("train.zip", "validation.zip", "test.zip"), sources.class_trees,
        "own train, val and test; an image that occurs in several of them stays in the last of these only"),
}  # fmt: skip


class MiniSuite(ShardedSuite[MiniTask]):
    """The tasks of the mini-Decathlon, which are read from the user's archives."""

    name, title, task_names = "mini", "mini-Decathlon", MINI_TASKS

    def info(self, task: MiniTask) -> DatasetInfo:
        """Facts of a task, known before it is prepared."""
        facts = FACTS[task]
        source = "the user's archives" if facts.files else "scikit-learn's load_digits"
        return DatasetInfo(
            name=f"mini_{task}", num_classes=facts.num_classes, sizes=facts.sizes, license=facts.license,
            source=source, splits=facts.splits, img_size=32, mean=facts.mean, std=facts.std,
        )  # fmt: skip

    def module(self, task: MiniTask, root: str) -> "MiniDecathlon":
        """The data module of a task."""
        return MiniDecathlon(task, root=root)

    def needs_source(self, task: MiniTask) -> bool:
        """All tasks but the digits of scikit-learn need archives."""
        return bool(FACTS[task].files)

    def check(self, task: MiniTask, source: str | Path | None) -> None:
        """Refuse a missing archive; ``source`` holds the folder ``<task>`` with the archives of the task."""
        files = FACTS[task].files
        wanted = " and ".join(f"{task}/{file}" for file in files)
        if files and source is None:
            raise UserError(f"mini_{task} cannot be downloaded; give --source FOLDER that holds {wanted}")
        for file in files:
            path = Path(str(source)) / task / file
            if not path.is_file():
                raise UserError(f"mini_{task}: {path} does not exist; --source is the folder that holds {wanted}")

    def images(self, task: MiniTask, source: str | Path | None, scratch: Path) -> Mapping[Split, Images]:
        """Read the archives of a task; damaged and other ones are refused."""
        facts = FACTS[task]
        folder = Path(str(source)) / task
        if facts.read is None:
            return pictures(f"mini_{task}", "digits")
        read = facts.read
        splits: sources.Splits = guarded(lambda: read(folder, scratch), str(folder), "fetch its archives again")
        for split, images in splits.items():
            images.where = f"mini_{task} {split}"
        classes = len(np.unique(splits["train"].labels))
        if classes != facts.num_classes:
            raise UserError(
                f"mini_{task}: the archives in {folder} hold training images of {classes} classes, "
                f"expected {facts.num_classes}; fetch them again"
            )
        return splits


MINI = MiniSuite()


class MiniDecathlon(SuiteTask):
    """One task of the mini-Decathlon at ``root/mini/<task>``: small real sets, whose short side is at most 64 px.

    Args:
        task: The task; ``tiny_imagenet`` is the large one, in the place of ImageNet.
        options: See :class:`~data_modules.shards.module.ShardedImages`.
    """

    suite = MINI

    def __init__(self, task: MiniTask = "tiny_imagenet", **options: Any) -> None:
        super().__init__(task, **options)
