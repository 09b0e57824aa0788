"""Tables of images with any number of labels each: ``labels.csv``."""

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from data_modules.files.tables import table_rows
from lgx.core.batch import IGNORE
from lgx.core.csv_cells import refuse_doubles
from lgx.core.schema import LINE, shortened
from lgx.errors import UserError

FILE, LABELS, SPLIT = "file", "labels", "split"
SPLITS = ("train", "val", "test")
_CELLS = {"0": 0, "1": 1, "": IGNORE, "-1": IGNORE}
_MOST_ENTRIES = 2**30
"""Most images x labels of a table; each takes a byte."""


@dataclass(frozen=True)
class LabelTable:
    """The images of a table with their labels.

    Attributes:
        classes: Names of the labels, in index order, K.
        files: Path of each image, relative to the folder of the table, N.
        labels: 1 for each label that an image has, ``IGNORE`` for each that is unknown, else 0, (N, K).
        splits: Split of each image, N; ``train`` where the table names none.
    """

    classes: tuple[str, ...]
    files: list[str]
    labels: NDArray[np.uint8]
    splits: list[str]

    def rows_of(self, split: str) -> NDArray[np.int64]:
        """Positions of the images of a split."""
        return np.flatnonzero(np.asarray(self.splits) == split)


def read_label_table(path: Path, known: Sequence[str] | None = None) -> LabelTable:
    """Read a table with a header and a row per image, in one of two forms.

    ``file,labels`` names the labels of an image, separated by semicolons; an empty cell says that it has none.
    ``file,cat,dog,...`` has a column for each label, with 1 where an image has it, else 0, and blank or -1 where
    that is unknown. Both may have a further column ``split`` with train, val or test. Empty lines are skipped.

    Args:
        path: The file, UTF-8, with commas.
        known: All labels in index order: the lines of ``classes.txt``. None takes the columns or, in the first form,
            the labels of the training images, sorted by name.

    Raises:
        UserError: If the table cannot be read or is wrong; the sentence names the file and, for a wrong cell, the line.
    """
    rows = table_rows(path)
    header_line, header = next(rows, (1, []))
    columns = [name for name in header if name not in (FILE, SPLIT)]
    _check_header(f"{path}, line {header_line}", header, columns)
    at = {name: header.index(name) for name in header}
    files: list[str] = []
    splits: list[str] = []
    cells: list[tuple[int, list[str]]] = []
    for number, row in rows:
        if len(row) != len(header):
            raise UserError(
                f"{path}, line {number}: {len(row)} cells, expected {len(header)} ({', '.join(header)[:200]})"
            )
        files.append(_file(row[at[FILE]], f"{path}, line {number}"))
        splits.append(_split(row[at[SPLIT]], f"{path}, line {number}") if SPLIT in at else "train")
        cells.append((number, [row[at[name]] for name in columns]))
    if not files:
        raise UserError(f"{path}: has no row below its header; expected one per image")
    file, times = Counter(files).most_common(1)[0]
    if times > 1:
        raise UserError(f"{path}: names {file} {times} times; give one row per image")
    if columns == [LABELS]:
        given = [(number, _names_in(of_row[0])) for number, of_row in cells]
        found = {name for (_, names), split in zip(given, splits, strict=True) if split == "train" for name in names}
        classes = tuple(known or sorted(found))
        _check_classes(path, classes)
        labels = _from_names(
            path, given, classes, "labels of classes.txt" if known else "labels of the training images"
        )
    else:
        if known is not None and set(known) != set(columns):
            other = sorted(set(known) ^ set(columns))[0]
            raise UserError(f"{path}: its columns and classes.txt differ, first in {other!r}; make them agree")
        classes = tuple(known or columns)
        _check_classes(path, classes)
        labels = _from_columns(path, cells, columns)[:, [columns.index(name) for name in classes]]
    return LabelTable(classes, files, labels, splits)


def _check_header(place: str, header: list[str], columns: list[str]) -> None:
    expected = f"expected {FILE},{LABELS} or {FILE} and a column for each label, and perhaps {SPLIT}"
    if FILE not in header or not columns:
        raise UserError(f"{place}: the header is {shortened(','.join(header))}; {expected}")
    refuse_doubles(header, place)


def _check_classes(path: Path, classes: tuple[str, ...]) -> None:
    for name in classes:
        if not name or not LINE.holds(name):
            raise UserError(f"{path}: the label {name!a} cannot be printed in one line; rename it")
    if len(classes) < 2:
        raise UserError(f"{path}: expected at least 2 labels, found {len(classes)} {list(classes)}")


def _file(name: str, place: str) -> str:
    """The path of an image, which must lie below the folder of the table."""
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or not LINE.holds(name):
        raise UserError(f"{place}: the file {shortened(name)} is no path below the folder of the table")
    return str(path)  # one name of each file: without ./ and //


def _split(name: str, place: str) -> str:
    if name not in SPLITS:
        raise UserError(f"{place}: the split {shortened(name)}, expected {', '.join(SPLITS)}")
    return name


def _names_in(cell: str) -> list[str]:
    return [name for part in cell.split(";") if (name := part.strip())]


def _zeros(path: Path, images: int, labels: int) -> NDArray[np.uint8]:
    """Labels (images, labels), all 0; refused above :data:`_MOST_ENTRIES`."""
    if images * labels > _MOST_ENTRIES:
        raise UserError(f"{path}: {images:,} images x {labels:,} labels are more than {_MOST_ENTRIES:,} entries")
    return np.zeros((images, labels), np.uint8)


def _from_names(
    path: Path, given: Sequence[tuple[int, list[str]]], classes: Sequence[str], which: str
) -> NDArray[np.uint8]:
    labels, index = _zeros(path, len(given), len(classes)), {name: k for k, name in enumerate(classes)}
    for row, (line, names) in enumerate(given):
        for name in names:
            if name not in index:
                close = difflib.get_close_matches(name, classes, n=1)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise UserError(f"{path}, line {line}: the label {shortened(name)} is not among the {which}{hint}")
            labels[row, index[name]] = 1
    return labels


def _from_columns(path: Path, cells: Sequence[tuple[int, list[str]]], columns: Sequence[str]) -> NDArray[np.uint8]:
    labels = _zeros(path, len(cells), len(columns))
    for row, (number, of_row) in enumerate(cells):
        if wrong := next((name for name, cell in zip(columns, of_row, strict=True) if cell not in _CELLS), None):
            found = of_row[columns.index(wrong)]
            raise UserError(f"{path}, line {number}: {wrong} is {shortened(found)}, expected 0, 1, or -1 for unknown")
        labels[row] = [_CELLS[cell] for cell in of_row]
    return labels
