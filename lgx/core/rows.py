"""Read and write ``results.csv``: one row per measured value. Runs are compared by these rows alone."""

import csv
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from lgx.core.readable import from_cell, in_cells
from lgx.core.schema import LINE, refuse_doubles, shortened
from lgx.errors import UserError
from lgx.host.files import atomic_path
from lgx.host.locks import changing

CLASSES = "test_classes"
CLASS_TABLE = f"{CLASSES}.csv"
"""File in a run's folder with the scores and the examples of each class in its test of one network."""


UNLISTED = "_unlisted"
"""End of the method of rows of a network that the run can make, but has not trained; averages leave it out."""


class Evaluation(NamedTuple):
    """The evaluation of one network on one task.

    Attributes:
        task: Name of the task.
        architecture: Name of the architecture.
        tag: Prefix of the tags of its metrics, e.g. ``val`` for ``val/acc``.
        name: Short name among the networks of a test, e.g. ``6x192``; empty if it is the only one, or has no name.
        suffix: End of the name of its metrics, see :meth:`lgx.methods.evaluation.EvaluatedModule.metrics_of`.
        is_trained: Whether the run has trained this network.
    """

    task: str
    architecture: str
    tag: str
    name: str = ""
    suffix: str = ""
    is_trained: bool = True

    def stem(self, kind: str) -> str:
        """Name of a file of its test without the extension: ``confusion-6x192``, or ``confusion`` without a name."""
        return "-".join([kind, *([re.sub(r"[^\w.-]", "_", self.name)] if self.name else [])])


@dataclass(frozen=True)
class Row:
    """One measured value.

    Attributes:
        method: Name of the method or of its variant, by which the weights were made.
        architecture: Name of the architecture, e.g. ``6-Small`` or ``depth=6,embed_dim=64,...``.
        task: Name of the task.
        split: ``val``, ``test``, or ``train`` (for the loss that was minimized).
        epochs: Epochs of training after initialization; 0 for evaluation without training.
        metric: Name of the metric, e.g. ``acc`` (share in [0, 1]) or ``loss``.
        value: The value.
        seed: Seed of the run.
        n: Number of examples that were measured.
        run: Folder of the run.
        commit: Commit of the code (:func:`lgx.core.provenance.commit`); empty where unknown, like the next two.
        config: Hash of the configuration, see :func:`lgx.core.provenance.config_hash`.
        hardware: Name of the device, e.g. ``2 x x86_64 CPU cores``.
    """

    method: str
    architecture: str
    task: str
    split: str
    epochs: int
    metric: str
    value: float
    seed: int
    n: int
    run: str
    commit: str = ""
    config: str = ""
    hardware: str = ""

    @property
    def key(self) -> tuple[str, str, str, str, int, str, int, str]:
        """The values that identify the row; a new measurement with the same key replaces it."""
        return (
            self.method, self.architecture, self.task, self.split, self.epochs, self.metric, self.seed, self.run,
        )  # fmt: skip


COLUMNS = tuple(field.name for field in fields(Row))


def write_rows(path: str | Path, rows: Iterable[Row]) -> None:
    """Write rows as CSV with a header, atomically; of rows with the same key the last one is kept."""
    unique = {row.key: row for row in rows}
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(in_cells(asdict(row).values()) for row in unique.values())


def read_rows(path: str | Path) -> list[Row]:
    """Read rows that :func:`write_rows` wrote.

    Raises:
        UserError: If the file is missing, lacks a column, or has text where a number is expected; the message names
            file and line.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such results file; a run writes it when it validates or tests")
    with path.open(newline="", encoding="utf-8-sig") as file:  # Excel writes a byte-order mark
        return _parse_rows(csv.DictReader(file), path)


def _parse_rows(reader: "csv.DictReader[str]", path: Path) -> list[Row]:
    rows: dict[Any, Row] = {}
    try:
        missing = set(COLUMNS) - set(reader.fieldnames or ())
        if missing:
            raise UserError(f"{path}: lacks the column(s) {', '.join(sorted(missing))}; expected {', '.join(COLUMNS)}")
        refuse_doubles(reader.fieldnames or (), f"{path}, line 1")
        for cells in reader:
            row = Row(**{column: _READERS.get(column, _text_cell)(cells[column]) for column in COLUMNS})
            first = rows.setdefault(row.key, row)
            if first is not row and first.value != row.value:
                raise ValueError(f"a second value of {row.split} {row.metric} of this run, {row.value}")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error.reason}); give the file that the run wrote") from error
    except (csv.Error, TypeError, ValueError) as error:
        at = f"{path}, line {reader.line_num}"
        raise UserError(f"{at}: {str(error)[:200]}; give the file that the run wrote") from error
    return [*rows.values()]


def _text_cell(cell: str) -> str:
    if not LINE.holds(cell):
        raise ValueError(f"{shortened(cell)} is not {LINE.words}")
    return from_cell(cell)


_READERS: dict[str, Callable[[str], Any]] = {"epochs": int, "value": float, "seed": int, "n": int}
"""Columns that hold numbers, and how they are read."""


def add_rows(path: str | Path, rows: Iterable[Row]) -> None:
    """Add rows to a file that may not exist yet; see :func:`keep_rows`."""
    keep_rows(path, lambda row: True, rows)


def keep_rows(path: str | Path, is_kept: Callable[[Row], bool], new: Iterable[Row] = ()) -> None:
    """Remove rows from a file and add others, atomically; of several processes one after the other changes the file.

    Args:
        path: The file, which need not exist. It is written only if it changes.
        is_kept: Whether a row of the file stays.
        new: The rows to add.
    """
    with changing(Path(path).parent):
        old = read_rows(path) if Path(path).is_file() else []
        rows = [*filter(is_kept, old), *new]
        if rows != old:
            write_rows(path, rows)
