"""The numbers of the papers' tables, read from ``experiments/paper_numbers.yaml``."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lgx.errors import UserError
from lgx.host.safety import read_yaml
from lgx.methods import registry

FILE = Path("experiments/paper_numbers.yaml")
_SIZES = {"T": "Tiny", "S": "Small", "B": "Base"}
AVERAGE = "average"
"""Name of a mean over tasks, or over architectures."""
OVER = "over="
"""Beginning of the variant of a number that is a lead over another method."""
_OF_TRAINING = "train_"
_TASKS, _ALL = ".tasks", "all"
_ROLES = ("Aux-", "Super-")
"""Networks that a paper names by their role; those of two methods differ."""

HOURS = "hours"
"""Unit of printed training times."""


@dataclass(frozen=True)
class PaperRow:
    """One number of a paper.

    Attributes:
        method: Name of the method in results; empty where the number belongs to the architecture alone.
        architecture: Name of the architecture, or empty.
        task: Name of the task, or empty.
        epochs: Epochs after initialization; 0 is untrained, None is not stated.
        metric: ``acc``, ``params``, ``flops``, ``time``, ``lr``, ...
        unit: ``percent``, ``M`` (1e6), ``G`` (1e9), ``hours`` or ``1``.
        variant: What else distinguishes two numbers, e.g. ``priority=last``; mostly empty.
        value: The number in ``unit``; None where the paper has a word (``remark``) instead.
        remark: That word, e.g. ``fail``; else empty.
    """

    method: str
    architecture: str
    task: str
    epochs: int | None
    metric: str
    unit: str
    variant: str
    value: float | None
    remark: str

    @property
    def result_name(self) -> str:
        """Name in results of the method with its variant: ``lsamd_image``, ``lsamd_last_middle``."""
        if not self.is_named_variant or self.variant in self._default_variants:
            return self.method
        return f"{self.method}_{self.variant.partition('=')[2].replace('-', '_')}"

    @property
    def is_named_variant(self) -> bool:
        """Whether the variant is a part of the method's name in results."""
        return self.variant.partition("=")[0] in {default.partition("=")[0] for default in self._default_variants}

    @property
    def _default_variants(self) -> tuple[str, ...]:
        spec = registry.find_spec(self.method)
        return spec.variants if spec else ()


@dataclass(frozen=True)
class PaperTable:
    """One table of a paper.

    Attributes:
        name: Key in the file, e.g. ``sws/table1``.
        title: What the table shows.
        source: Paper and number of the table.
        notes: Contradictions and unreadable places.
        rows: Its numbers, line by line.
        tasks: The table's names of tasks by their names in results, where the two differ.
    """

    name: str
    title: str
    source: str
    notes: tuple[str, ...]
    rows: tuple[PaperRow, ...]
    tasks: Mapping[str, str] = field(default_factory=dict)

    def find(self, method: str, architecture: str, task: str, epochs: int, metric: str) -> float | None:
        """The paper's number for a measured value, in the paper's unit; None unless there is exactly one.

        Two names of one architecture (``Des-B-12``, ``12-Base``) match, and an auxiliary net or super ancestor
        (``Aux-B``, ``Super-B``) matches whatever network the method trained. A variant matches the name that results
        have for it: ``priority=last`` of LSAMD is ``lsamd_last``. After training, a start also matches the name that
        papers give it then, see :func:`paper_names`. Numbers whose epochs the paper does not state match every number
        of epochs but 0.
        """
        methods = paper_names(method) if epochs else {method}
        found = [
            row.value
            for row in self.rows
            if (row.result_name if row.is_named_variant else row.method) in methods
            and (row.architecture.startswith(_ROLES) or plain_name(row.architecture) == plain_name(architecture))
            and row.task == self.task_name(task)
            and row.metric == metric
            and (row.epochs == epochs or (row.epochs is None and epochs > 0))
        ]
        return found[0] if len(found) == 1 else None

    def task_name(self, task: str) -> str:
        """The table's name of a task: ``pets`` for ``oxford_iiit_pet``."""
        return self.tasks.get(task, task)

    def of_split(self, split: str) -> "PaperTable":
        """The table with the rows of one split. Metrics of the training split, ``train_loss``, become ``loss``."""
        rows = (
            replace(row, metric=row.metric.removeprefix(_OF_TRAINING))
            for row in self.rows
            if row.metric.startswith(_OF_TRAINING) == (split == "train")
        )
        return replace(self, rows=tuple(rows))


def paper_names(method: str) -> set[str]:
    """Names of a trained descendant in papers: its method's, and the one that papers give this start after training."""
    spec = registry.find_spec(method)
    return {method, spec.trained_name} if spec and spec.trained_name else {method}


def load_table(name: str) -> PaperTable:
    """Load one table.

    Args:
        name: Its key, e.g. ``sws/table1``.

    Raises:
        UserError: If the file is missing or malformed or has no such table.
    """
    entries, paper = _read(), name.partition("/")[0]
    tasks = entries.pop(_TASKS, {})
    if name not in entries:
        raise UserError(f"no table {name!r}; known are {', '.join(entries)}")
    try:
        return _table(name, entries[name], {**tasks.get(_ALL, {}), **tasks.get(paper, {})})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{FILE}, table {name}: {error}; see the head of the file for its form") from error


def table_names() -> list[str]:
    """Names of all tables, in the file's order.

    Raises:
        UserError: If the file is missing or malformed.
    """
    return [name for name in _read() if name != _TASKS]


def plain_name(architecture: str) -> str:
    """The name in results of a paper's architecture: ``6-Small`` for ``Des-S-6``."""
    named = re.fullmatch(r"Des-([TSB])-(\d+)", architecture)
    return f"{named[2]}-{_SIZES[named[1]]}" if named else architecture


def _read() -> dict[str, Any]:
    return dict(read_yaml(FILE, "run from the repository's folder"))


def _table(name: str, entry: Mapping[str, Any], tasks: Mapping[str, str]) -> PaperTable:
    labels = list(entry["labels"])
    columns = _columns(entry["columns"])
    rows = []
    for line in entry["rows"]:
        if len(line) != len(labels) + len(columns):
            raise ValueError(f"{line} has {len(line)} cells, expected {len(labels)} labels + {len(columns)} values")
        given = dict(zip(labels, line, strict=False))
        for column, cell in zip(columns, line[len(labels) :], strict=True):
            if cell is not None:
                rows.append(_row({**entry.get("all", {}), **column, **given}, cell))
    return PaperTable(name, entry["title"], entry["source"], tuple(entry.get("notes", ())), tuple(rows), tasks)


def _columns(columns: Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Any]]) -> list[Mapping[str, Any]]:
    if isinstance(columns, Mapping):
        ((key, values),) = columns.items()
        return [{key: value} for value in values]
    return list(columns)


def _row(given: Mapping[str, Any], cell: float | str) -> PaperRow:
    texts = dict.fromkeys(("method", "architecture", "task", "variant"), "")
    texts |= {key: "" if value is None else str(value) for key, value in given.items() if key != "epochs"}
    value, remark = (None, cell) if isinstance(cell, str) else (float(cell), "")
    return PaperRow(**texts, epochs=given.get("epochs"), value=value, remark=remark)
