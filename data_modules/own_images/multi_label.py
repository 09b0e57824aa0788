"""``MultiLabelFolderData``: images of a user, each with any number of labels."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from data_modules.base import Split
from data_modules.images.class_trees import listed_classes
from data_modules.images.examples import ImageFiles, Images
from data_modules.own_images.base import OwnImages
from data_modules.own_images.label_table import read_label_table
from data_modules.splits import Indices, stratified_order
from lgx.errors import UserError


class MultiLabelFiles(ImageFiles):
    """Image files with any number of labels each.

    Args:
        folder: The folder.
        names: Paths relative to it.
        labels: 1 for each label that an image has, ``IGNORE`` for each that is unknown, else 0, (N, K).
        where: Set and split, for error messages.
    """

    def __init__(self, folder: Path, names: Sequence[str], labels: Any, where: str) -> None:
        super().__init__(folder, names, np.zeros(len(names), np.int64), where)
        self.labels = np.asarray(labels, np.uint8)

    def strata(self) -> Indices:
        """The rarest label of each image, or K if it has none: images of one stratum are drawn evenly."""
        has = self.labels == 1
        counts = np.where(has, has.sum(axis=0), np.iinfo(np.int64).max)
        strata: Indices = np.where(has.any(axis=1), counts.argmin(axis=1), self.labels.shape[1])
        return strata


@dataclass(eq=False, repr=False)
class MultiLabelFolderData(OwnImages):
    """Images with any number of labels each, which ``root/labels.csv`` lists.

    The table has a header and a row per image, in one of two forms: ``file,labels`` with ``cats/1.jpg,cat;indoors``,
    where an empty cell means no label; or ``file,cat,dog,...`` with 1 for each label that the image has, else 0, and
    blank or -1 where it is unknown: such a label counts neither in the loss nor in metrics. Paths are relative to
    ``root``. A further column ``split`` may say train, val or test; without it all images are training images. Without
    val images a share of the training images is held out by ``split_seed``, the same share of the images with the same
    rarest label. The labels are the columns; in the first form those of the training images, in the order of the
    alphabet, or the lines of ``root/classes.txt``, if it exists.

    Args:
        root: The folder with the table.
    """

    root: str = field()

    def __post_init__(self) -> None:
        folder = self.root_folder
        table = folder / "labels.csv"
        if not table.is_file():
            raise UserError(
                f"data.root: {folder} has no labels.csv; expected a table with the header file,labels and a row per "
                f"image, e.g. images/1.jpg,cat;dog"
            )
        self.table = read_label_table(table, listed_classes(folder / "classes.txt"))
        splits = "the column split of labels.csv, or all train, with a share of train as val"
        names = self.table.classes
        self.info = self.describe(len(names), splits, class_names=names, kind="multilabel", metric="map")
        super().__post_init__()

    def read(self, split: Split) -> Images:
        """See :class:`~data_modules.images.module.ImageDataModule`."""
        has_val = len(self.table.rows_of("val")) > 0
        rows = self.table.rows_of("train" if split == "val" and not has_val else split)
        table = self.root_folder / "labels.csv"
        if len(rows) == 0:
            raise UserError(f"{table}: has no {split} image; give it a column split with train, val and test")
        files = MultiLabelFiles(
            self.root_folder,
            [self.table.files[row] for row in rows],
            self.table.labels[rows],
            f"{self.info.name} {split}",
        )
        missing = [files.path(index) for index in range(len(files)) if not files.path(index).is_file()]
        if missing:
            raise UserError(
                f"{table}: {len(missing):,} of {len(files):,} {split} images are missing, first {missing[0]}; restore "
                f"them or remove their rows"
            )
        if split == "train" and (absent := np.flatnonzero(~(files.labels == 1).any(axis=0))).size:
            raise UserError(
                f"{table}: no training image has the label {self.table.classes[absent[0]]}; remove it or add some"
            )
        if split == "test" or has_val:
            return files
        return self.hold_out(files, files.strata(), split)

    def first(self, examples: Images, count: int, split: Split) -> Images:
        """The first ``count`` examples of a seeded draw that is stratified by the rarest label of each image."""
        files = cast(MultiLabelFiles, examples)
        return files.take(stratified_order(files.strata(), self.split_seed)[:count])
