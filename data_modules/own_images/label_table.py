"""The table ``labels.csv`` of one or of several labels for each image, and ``MultiLabelFolderData``, which reads it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from data_modules.base import SPLITS, Split
from data_modules.files.tables import table_records
from data_modules.images.class_trees import in_order
from data_modules.images.examples import ImageFiles, Images
from data_modules.own_images.base import OwnImages
from data_modules.splits import rarest_labels, stratified_order
from lgx.core.schema import shortened
from lgx.core.task import IGNORE
from lgx.errors import UserError

TABLE = "labels.csv"
FILE, LABEL, LABELS, SPLIT = "file", "label", "labels", "split"
_CELLS = {"0": 0, "1": 1, "": IGNORE, "-1": IGNORE}
Cells = tuple[str, list[str]]
"""File and line of a row, and its cells."""


@dataclass(frozen=True)
class LabelTable:
    """The images of a table with their labels.

    Attributes:
        path: The file.
        classes: Names of the labels, in index order, K.
        files: Path of each image, relative to the folder of the table, N.
        labels: The class index of each image, (N,), if the table has a column ``label``. Else 1 for each label that an
            image has, ``IGNORE`` for each that is unknown, and 0 for others, (N, K).
        splits: Split of each image, N; ``train`` where the table names none.
    """

    path: Path
    classes: tuple[str, ...]
    files: list[str]
    labels: NDArray[Any]
    splits: list[str]

    @property
    def is_single(self) -> bool:
        """Whether each image has exactly one label."""
        return self.labels.ndim == 1

    @property
    def has_val(self) -> bool:
        """Whether the table names validation images."""
        return "val" in self.splits

    def images(self, split: Split, where: str) -> ImageFiles:
        """The images of a split; without val images, those of train from which they are held out.

        Raises:
            UserError: If there are none, one is missing, or no training image has one of the labels.
        """
        wanted = "train" if split == "val" and not self.has_val else split
        rows = np.flatnonzero(np.asarray(self.splits) == wanted)
        if len(rows) == 0:
            raise UserError(f"{self.path}: has no {wanted} images; add a column split with train, val and test")
        files = ImageFiles(self.path.parent, [self.files[row] for row in rows], self.labels[rows], where)
        missing = [files.path(index) for index in range(len(files)) if not files.path(index).is_file()]
        if missing:
            raise UserError(
                f"{self.path}: {len(missing):,} of {len(files):,} {wanted} images are missing, first {missing[0]}; "
                f"restore them or remove their rows"
            )
        labels = files.labels
        counts = np.bincount(labels, minlength=len(self.classes)) if self.is_single else (labels == 1).sum(axis=0)
        if split == "train" and (absent := np.flatnonzero(counts == 0)).size:
            raise UserError(
                f"{self.path}: no training image has the label {self.classes[absent[0]]}; remove it or add some"
            )
        return files


def read_label_table(path: Path) -> LabelTable:
    """Read a table with a header and a row per image, in one of three forms.

    ``file,label`` names the class of an image. ``file,labels`` names the labels of an image, separated by semicolons;
    an empty cell means no label. ``file,cat,dog,...`` has a column for each label, with 1 for present, 0 for absent,
    and blank or -1 for unknown. All may have a column ``split`` with train, val or test. Empty lines are skipped.
    The labels are the columns of the third form, else those of the training images, sorted by name; classes that are
    all numbers are sorted as numbers.

    Raises:
        UserError: If the table cannot be read or is wrong; the sentence names the file and, for a wrong cell, the line.
    """
    files: list[str] = []
    splits: list[str] = []
    cells: list[Cells] = []
    columns: list[str] = []
    for number, row in table_records(path, (FILE,)):
        place = f"{path}, line {number}"
        columns = [name for name in row if name not in (FILE, SPLIT)]
        files.append(str(PurePosixPath(row[FILE])))
        split = row.get(SPLIT, "train")
        if split not in SPLITS:
            raise UserError(f"{place}: the split {shortened(split)}, expected {', '.join(SPLITS)}")
        splits.append(split)
        cells.append((place, [row[name] for name in columns]))
    doubled = [file for file, times in Counter(files).items() if times > 1]
    if doubled:
        raise UserError(f"{path}: names {doubled[0]} several times; give one row per image")
    if columns in ([LABEL], [LABELS]):
        if columns == [LABELS]:
            cells = [(place, [part.strip() for part in cell.split(";") if part.strip()]) for place, (cell,) in cells]
        elif empty := next((place for place, (cell,) in cells if not cell), None):
            raise UserError(f"{empty}: has no label; name the class of the image")
        of_train = {name for (_, names), split in zip(cells, splits, strict=True) if split == "train" for name in names}
        classes = in_order(of_train) if columns == [LABEL] else sorted(of_train)
        labels = _from_names(cells, classes)
        labels = labels.argmax(axis=1).astype(np.int64) if columns == [LABEL] else labels
    else:
        classes = columns
        labels = _from_columns(cells, columns)
    if len(classes) < 2:
        raise UserError(f"{path}: expected at least 2 labels, found {len(classes)} {classes}")
    return LabelTable(path, tuple(classes), files, labels, splits)


def _from_names(cells: Sequence[Cells], classes: Sequence[str]) -> NDArray[np.uint8]:
    labels = np.zeros((len(cells), len(classes)), np.uint8)
    index = {name: k for k, name in enumerate(classes)}
    for row, (place, names) in enumerate(cells):
        for name in names:
            if name not in index:
                raise UserError(f"{place}: the label {shortened(name)} is not among the labels of the training images")
            labels[row, index[name]] = 1
    return labels


def _from_columns(cells: Sequence[Cells], columns: Sequence[str]) -> NDArray[np.uint8]:
    labels = np.zeros((len(cells), len(columns)), np.uint8)
    for row, (place, of_row) in enumerate(cells):
        for name, cell in zip(columns, of_row, strict=True):
            if cell not in _CELLS:
                raise UserError(f"{place}: {name} is {shortened(cell)}, expected 0, 1, or -1 for unknown")
        labels[row] = [_CELLS[cell] for cell in of_row]
    return labels


@dataclass(eq=False, repr=False)
class MultiLabelFolderData(OwnImages):
    """Images with any number of labels each, which ``root/labels.csv`` lists.

    The table has a header and a row per image, in one of two forms: ``file,labels`` with ``cats/1.jpg,cat;indoors``,
    where an empty cell means no label; or ``file,cat,dog,...`` with 1 for present, 0 for absent, and blank or -1 for
    unknown. Losses and metrics ignore unknown labels. Paths are relative to ``root``. A column ``split`` may name
    train, val or test; without it all images are training images. Without val images, a share of the training images is
    held out by ``split_seed``, stratified by the rarest label of each image. The labels are the columns. In the first
    form they are the labels of the training images in alphabetical order.

    Args:
        root: The folder with the table.
    """

    root: str = field()

    def __post_init__(self) -> None:
        table = self.present_root / TABLE
        if not table.is_file():
            raise UserError(
                f"data.root: {self.root} has no {TABLE}; expected a table with the header file,labels and a row per "
                f"image, e.g. images/1.jpg,cat;dog"
            )
        self.table = read_label_table(table)
        if self.table.is_single:
            raise UserError(f"{table}: the column label gives each image one class; use --data ImageFolderData")
        splits = "the column split of labels.csv, or all train, with a share of train as val"
        names = self.table.classes
        self.info = self.describe(len(names), splits, class_names=names, kind="multilabel", metric="map")
        super().__post_init__()

    @property
    def has_test(self) -> bool:
        """See :class:`~data_modules.base.TaskDataModule`."""
        return "test" in self.table.splits

    def read(self, split: Split) -> Images:
        """See :class:`~data_modules.images.module.ImageDataModule`."""
        files = self.table.images(split, f"{self.info.name} {split}")
        return self.part(files, rarest_labels(files.labels), split, self.table.has_val)

    def first(self, examples: Images, count: int, split: Split) -> Images:
        """The first ``count`` examples of a seeded draw that is stratified by the rarest label of each image."""
        files = cast(ImageFiles, examples)
        return files.take(stratified_order(rarest_labels(files.labels), self.split_seed)[:count])
