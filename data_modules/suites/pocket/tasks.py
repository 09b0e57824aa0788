"""The Pocket Decathlon: the classes and sizes of its ten tasks, and how they are drawn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from PIL import Image

from data_modules.base import SPLITS, DatasetInfo, Split
from data_modules.images.examples import LabeledImages
from data_modules.splits import Indices, stratified_split
from data_modules.suites.pocket import synthetic, written
from data_modules.suites.pocket.drawing import SIZE, Array, Rng
from data_modules.suites.suite import ShardedSuite, SuiteTask

# The order is part of the seeds of draw_task: append new tasks, never reorder.
PocketTask = Literal[
    "digits", "glyphs", "textures", "signs", "clutter", "silhouettes", "persons", "roses", "motions", "world"
]
POCKET_TASKS: tuple[PocketTask, ...] = get_args(PocketTask)


@dataclass(frozen=True)
class Drawing:
    """How one task is drawn.

    Attributes:
        classes: Names of the classes, in index order.
        per_class: Images per class of (train, val, test); of the real digits, which are split by share, about so many.
        draw: (rng, class name, n) -> images (n, 32, 32, 3) of bytes; None for the real digits.
        stands_for: The part of the Visual Decathlon that the task mirrors.
    """

    classes: tuple[str, ...]
    per_class: tuple[int, int, int]
    draw: Callable[[Rng, str, int], Array] | None
    stands_for: str


DIGITS = tuple("0123456789")
DRAWINGS: dict[PocketTask, Drawing] = {
    "digits": Drawing(DIGITS, (120, 19, 40), None, "CIFAR-100's place: real scans"),
    "glyphs": Drawing(written.GLYPHS, (40, 6, 12), written.glyphs, "Omniglot"),
    "textures": Drawing(tuple(synthetic.TEXTURES), (125, 25, 50), synthetic.textures, "DTD"),
    "signs": Drawing(synthetic.SIGNS, (60, 12, 25), lambda *drawn: synthetic.signs(*drawn)[0], "GTSRB"),
    "clutter": Drawing(DIGITS, (180, 30, 60), written.clutter, "SVHN"),
    "silhouettes": Drawing(tuple(synthetic.AIRCRAFT), (125, 25, 50), synthetic.silhouettes, "Aircraft"),
    "persons": Drawing(("background", "person"), (600, 150, 300), synthetic.persons, "Daimler pedestrians"),
    "roses": Drawing(tuple(synthetic.ROSES), (125, 25, 50), synthetic.roses, "Flowers"),
    "motions": Drawing(synthetic.MOTIONS, (150, 30, 60), synthetic.motions, "UCF101 dynamic images"),
    "world": Drawing(synthetic.WORLD, (75, 8, 12), synthetic.world, "ImageNet"),
}


class PocketSuite(ShardedSuite[PocketTask]):
    """The ten pocket tasks, which are drawn when they are prepared."""

    name, title, task_names = "pocket", "Pocket Decathlon", POCKET_TASKS

    def info(self, task: PocketTask) -> DatasetInfo:
        """Facts of a pocket task, known before it is made."""
        drawing = DRAWINGS[task]
        n, real = len(drawing.classes), drawing.draw is None
        train, val, test = drawing.per_class
        return DatasetInfo(
            name=f"pocket_{task}", num_classes=n, class_names=drawing.classes,
            sizes=(1_258, 180, 359) if real else (train * n, val * n, test * n),
            license="CC BY 4.0 (UCI digits, in scikit-learn)" if real else "none needed (generated)",
            source="scikit-learn's load_digits" if real else f"seeded generator; mirrors {drawing.stands_for}",
            splits="disjoint, class-stratified" if real else "drawn from different seeds, no image in two splits",
            img_size=SIZE, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5),
        )  # fmt: skip

    def images(self, task: PocketTask, source: str | Path | None, scratch: Path) -> Mapping[Split, LabeledImages]:
        """Draw the images."""
        return pictures(self.info(task).name, task)

    def module(self, task: PocketTask, root: str) -> "PocketDecathlon":
        """The data module of a task."""
        return PocketDecathlon(task, root=root)


POCKET = PocketSuite()


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


def draw_task(task: PocketTask, seed: int = 0) -> dict[Split, tuple[Array, Indices]]:
    """Draw all images of a task; the same seed gives the same images.

    Returns:
        Per split, images (N, 32, 32, 3) of bytes and labels (N,). A drawn image that occurred before is dropped.
    """
    drawing, number = DRAWINGS[task], POCKET_TASKS.index(task)
    if drawing.draw is None:
        images, labels = written.real_digits()
        rest, test = stratified_split(labels, 0.2, seed)
        train, val = stratified_split(labels[rest], 0.125, seed)
        chosen = dict(zip(SPLITS, (rest[train], rest[val], test), strict=True))
        return {split: (images[index], labels[index]) for split, index in chosen.items()}
    drawn: dict[Split, tuple[Array, Indices]] = {}
    seen: set[bytes] = set()
    for k, (split, n) in enumerate(zip(SPLITS, drawing.per_class, strict=True)):
        parts = [
            drawing.draw(np.random.default_rng([seed, number, k, label]), name, n)
            for label, name in enumerate(drawing.classes)
        ]
        images, labels = np.concatenate(parts), np.repeat(np.arange(len(parts)), n)
        first = {image.tobytes(): i for i, image in reversed([*enumerate(images)])}
        fresh = sorted(i for data, i in first.items() if data not in seen)
        seen |= first.keys()
        drawn[split] = images[fresh], labels[fresh]
    return drawn


def pictures(name: str, task: PocketTask) -> dict[Split, LabeledImages]:
    """The images of a task as the set called ``name``."""
    return {
        split: LabeledImages([(Image.fromarray(image), -1) for image in images], labels, f"{name} {split}")
        for split, (images, labels) in draw_task(task).items()
    }
