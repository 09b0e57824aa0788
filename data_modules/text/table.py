"""Texts of a user: ``TextTable`` with labels, ``UnlabeledTexts`` without."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from data_modules.base import Split
from data_modules.images.class_trees import in_order
from data_modules.text.module import OwnTexts, TextDataModule
from data_modules.text.rows import labeled, read_files, read_texts, split_files
from lgx.core.task import AGREEMENT
from lgx.errors import UserError

_MOST_CLASSES = 10_000


class TableTexts(OwnTexts, TextDataModule):
    """Base of the texts of a user in tables."""

    @property
    def columns(self) -> list[str]:
        """The columns with texts.

        Raises:
            UserError: If they are not one or two different ones.
        """
        columns = [column.strip() for column in self.text.split(",")]
        if not 1 <= len({*columns}) == len(columns) <= 2:
            raise UserError(f"data.text: expected one column or two different ones, got {self.text!r}")
        return columns

    @cached_property
    def paths(self) -> dict[Split, list[Any]]:
        """The files of each split."""
        return split_files(self.root_folder)

    @property
    def absent(self) -> Sequence[Split]:
        """See :class:`~data_modules.text.module.TextDataModule`."""
        return [split for split in ("val", "test") if split not in self.paths]


@dataclass(eq=False, repr=False)
class TextTable(TableTexts):
    """Labeled texts in ``.csv``, ``.tsv``, ``.jsonl`` or ``.parquet`` files, one text or a pair in each row.

    A word in a path names its split: ``train.csv``, ``dev.csv``, ``test/a.parquet``. Without files for validation or
    test, ``val_fraction`` of the training rows is held out for each, stratified by class.

    Classes are the values of the column ``label`` in the training files, in the order of whole numbers or of the
    alphabet.

    Args:
        label: Column with one class for each text.
    """

    label: str = "label"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.info = self.describe(len(self.classes), class_names=self.classes, kind="text")

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in index order."""
        column = self.label
        rows = read_files(self.paths["train"], [column])
        wrong = [row for row, value in enumerate(rows[column], 1) if _is_no_class(value)]
        if wrong:
            raise UserError(
                f"{self.root}, row {wrong[0]}: has no class in column {column!r}; correct or remove the row"
            )
        values = {str(value) for value in rows[column]}
        if not 2 <= len(values) <= _MOST_CLASSES:
            raise UserError(
                f"{self.root}: column {column!r} has {len(values):,} different values, expected 2 to {_MOST_CLASSES:,} "
                f"classes; name the column of the classes with data.label"
            )
        return tuple(in_order(values))

    def read(self, split: Split) -> Any:
        """See :class:`~data_modules.text.module.TextDataModule`."""
        place = ", ".join(map(str, self.paths[split][:3]))
        index = {name: k for k, name in enumerate(self.classes)}
        rows = read_files(self.paths[split], [*self.columns, self.label])
        return labeled(rows, self.columns, self.label, index, place)


@dataclass(eq=False, repr=False)
class UnlabeledTexts(TableTexts):
    """Texts without labels, for methods that learn from an ancestor only.

    They are the rows of ``.csv``, ``.tsv``, ``.jsonl`` or ``.parquet`` files, or the lines of ``.txt`` files, without
    empty ones. A word in a path names its split, as for ``TextTable``.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.info = self.describe(0, kind="text", metric=AGREEMENT)

    def read(self, split: Split) -> Any:
        """See :class:`~data_modules.text.module.TextDataModule`; all texts are of class 0."""
        columns, rows = read_texts(self.paths[split], self.columns)
        place = ", ".join(map(str, self.paths[split][:3]))
        texts = labeled(rows.add_column("_one", ["0"] * len(rows)), columns, "_one", {"0": 0}, place)
        return texts.filter(str.strip, input_columns="text")


def _is_no_class(value: Any) -> bool:
    """Whether a cell is empty, not a number, or has several values."""
    return value is None or isinstance(value, list | dict) or value != value or not str(value).strip()
