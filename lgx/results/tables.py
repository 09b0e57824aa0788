"""From rows to tables: methods × descendants × tasks, mean over seeds with interval."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING

from lgx.core.rows import Row
from lgx.results.paper import PaperTable
from lgx.results.statistics import Summary, paired_difference, summarize

if TYPE_CHECKING:
    from rich.table import Table as RichTable

METHODS = (
    "random", "trained", "pretrained", "pretrain_finetune", "ancestor", "vanilla_lg", "weight_selection", "tleg",
    "mini_deit", "simple_lg", "sws_random_assigned", "sws_order2", "sws", "lsamd", "ghn3", "ghn3_task", "logah",
    "tal_st", "tal_no_task", "tal_no_ancestor", "tal", "tal_plus",
)  # fmt: skip
"""Order of the methods in tables and figures; others follow by name."""
PERCENT = ("acc", "acc1", "acc5", "f1", "mcc", "miou")
"""Metrics that are shares and are shown in percent."""
_LOWER_IS_BETTER = ("loss", "time", "error", "perplexity", "params", "flops")
_WIDTHS = ("Tiny", "T", "Small", "S", "Base", "B")
_DEPTHS = (r"depth=(?P<depth>\d+)(?P<rest>)", r"(?P<depth>\d+)-(?P<rest>[^=]+)", r"(?P<rest>[^=]+)-(?P<depth>\d+)")
NONE = "–"


@dataclass(frozen=True)
class Entry:
    """What one cell of a table says.

    Attributes:
        method: Name of the method.
        architecture: Name of the architecture.
        task: Name of the task.
        epochs: Epochs after initialization; None where a paper does not state them.
        summary: Mean over seeds as shown (shares in percent); None where a paper has a word instead.
        text: What stands in the cell.
        paper: The paper's number for it, in the paper's unit; None where there is none.
    """

    method: str
    architecture: str
    task: str
    epochs: int | None
    summary: Summary | None
    text: str
    paper: float | None = None


@dataclass(frozen=True)
class Cell:
    """Text of a cell, and whether it is the best of its column."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Table:
    """A table ready to be shown.

    Attributes:
        title: What it shows.
        columns: Heads of the columns after the first.
        rows: What stands in the first column, mostly a method, and the cells of each line.
        common: What all columns have in common and their heads leave out; may be empty.
        first: Head of the first column.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    common: str = ""
    first: str = "method"


def depth_of(architecture: str) -> int | None:
    """Number of layers that a name (``6-Small``, ``Des-B-12``, ``depth=6,...``) speaks of; None if it does not."""
    return _split(architecture)[0]


def family_of(architecture: str) -> str:
    """The name without its depth: ``Small``, ``Des-B``, ``embed_dim=64,...``."""
    return _split(architecture)[1]


def architecture_order(architecture: str) -> tuple[int, list[str | int], int, str]:
    """Sort key: by width as far as the name tells it, then by depth."""
    family = family_of(architecture)
    width = next((i for i, word in enumerate(_WIDTHS) if word in re.split(r"[-,]", family)), -1)
    natural = [int(part) if i % 2 else part for i, part in enumerate(re.split(r"([0-9]+)", family))]
    return width, natural, depth_of(architecture) or 0, architecture


def method_order(method: str) -> tuple[int, str]:
    """Sort key: the order of :data:`METHODS`, then by name; ``sws (variant)`` counts as ``sws``."""
    name = method.partition(" (")[0]
    return (METHODS.index(name), "") if name in METHODS else (len(METHODS), method)


def short_names(architectures: Sequence[str]) -> tuple[dict[str, str], str]:
    """Leave out of specs what all have in common.

    Returns:
        The short name of each, and a sentence on what was left out of all; empty if nothing.
    """
    parts = [architecture.split(",") for architecture in architectures]
    common = [part for part in parts[0] if all(part in p for p in parts)] if len(parts) > 1 else []
    short = {a: ",".join(part for part in p if part not in common) for a, p in zip(architectures, parts, strict=True)}
    if not all(short.values()):
        return {architecture: architecture for architecture in architectures}, ""
    return short, f"all with {','.join(common)}" if common else ""


def state(epochs: int | None) -> str:
    """``untrained``, ``after 10 epochs``, ..."""
    if epochs is None:
        return "epochs not stated"
    return f"after {epochs} epoch{'s' if epochs > 1 else ''}" if epochs else "untrained"


def number(value: float, metric: str) -> str:
    """A value as shown: two decimals for percent, four for others."""
    return f"{value:.2f}" if metric in PERCENT else f"{value:.4f}"


def summary_text(summary: Summary, metric: str, sign: str = "") -> str:
    """``mean ± half width (n)``; without ± for one seed."""
    mean = (sign if summary.mean >= 0 else "") + number(summary.mean, metric)
    width = "" if summary.half_width is None else f" ± {number(summary.half_width, metric)}"
    return f"{mean}{width} ({summary.n})"


def measured(rows: Iterable[Row], metric: str, paper: PaperTable | None = None) -> list[Entry]:
    """One entry per method, architecture, task and number of epochs, over seeds.

    Args:
        rows: Rows of one metric and one split.
        metric: That metric; shares come out in percent.
        paper: Table whose numbers are set behind those of the same method, architecture, task and epochs.
    """
    entries = []
    for (method, architecture, task, epochs), values in _by_seed(rows, metric).items():
        summary = summarize([values[seed] for seed in sorted(values)])
        text = summary_text(summary, metric)
        known = paper.find(method, architecture, task, epochs, metric) if paper else None
        if known is not None:
            text += f", paper {known:.10g}"
        entries.append(Entry(method, architecture, task, epochs, summary, text, known))
    return entries


def differences(rows: Iterable[Row], metric: str, baseline: str) -> list[Entry]:
    """Paired difference of every method to ``baseline`` over common seeds: * where the interval excludes 0, p-value."""
    by_seed = _by_seed(rows, metric)
    entries = []
    for (method, architecture, task, epochs), values in by_seed.items():
        difference = paired_difference(values, by_seed.get((baseline, architecture, task, epochs), {}))
        if method != baseline and difference is not None:
            text = summary_text(difference.summary, metric, "+") + difference.marks
            entries.append(Entry(method, architecture, task, epochs, difference.summary, text))
    return entries


def printed(paper: PaperTable, metric: str) -> list[Entry]:
    """The paper's numbers of one metric as entries; a variant stands behind its method."""
    return [
        Entry(
            method=f"{row.method} ({row.variant})" if row.variant else row.method or "(architecture)",
            architecture=row.architecture,
            task=row.task,
            epochs=row.epochs,
            summary=None if row.value is None else Summary(row.value, None, 1),
            text=row.remark or f"{row.value:.10g}",
        )
        for row in paper.rows
        if row.metric == metric
    ]


def arrange(entries: Sequence[Entry], metric: str, also: Sequence[str] = (), mark_best: bool = True) -> list[Table]:
    """Set entries as tables with a line per method.

    Untrained and trained descendants stand in tables of their own. Columns are architectures (a table per task) or
    tasks (a table per architecture), whichever gives fewer tables, and epochs where there is one of each.

    Args:
        entries: What to show.
        metric: Their metric; says in which direction is better.
        also: Methods that get a line even where there is nothing to show, so that two tables can be read in parallel.
        mark_best: Whether to mark the best method of each column.
    """
    architectures = sorted({entry.architecture for entry in entries}, key=architecture_order)
    tasks = {entry.task for entry in entries}
    short, common = short_names(architectures)
    title: Callable[[Entry], str]
    head: Callable[[Entry], str]
    if len(architectures) == len(tasks) == 1:
        title, head, common = (lambda e: _join(e.task, e.architecture)), (lambda e: state(e.epochs)), ""
    elif len(tasks) <= len(architectures):
        title, head = (lambda e: _join(e.task, state(e.epochs))), (lambda e: short[e.architecture])
    else:
        title, head, common = (lambda e: _join(e.architecture, state(e.epochs))), (lambda e: e.task), ""
    groups: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=_entry_order):
        groups.setdefault(title(entry), []).append(entry)
    return [_table(name, group, head, metric if mark_best else None, also, common) for name, group in groups.items()]


def to_rich(table: Table, width: int = 80) -> list["RichTable"]:
    """The table for a terminal, cut into several where it is wider than that.

    Names are shown as they are, never read as markup.

    Args:
        table: What to show.
        width: Width of the terminal, characters.
    """
    from rich.table import Table as RichTable
    from rich.text import Text

    frame = 3
    first = max(len(text) for text in (table.first, *(method for method, _ in table.rows)))
    blocks: list[list[int]] = []
    room = 0
    for i, column in enumerate(table.columns):
        wanted = frame + max(len(text) for text in (column, *(cells[i].text for _, cells in table.rows)))
        if wanted > room:
            blocks.append([])
            room = width - first - frame - 1
        blocks[-1].append(i)
        room -= wanted
    views = []
    for block in blocks:
        title, caption = Text(table.title), Text(table.common)
        view = RichTable(title=title, title_justify="left", caption=caption, caption_justify="left")
        view.add_column(table.first, no_wrap=True)
        for i in block:
            view.add_column(Text(table.columns[i]), justify="right", overflow="fold")
        for method, cells in table.rows:
            shown = (Text(cells[i].text, style="bold" if cells[i].best else "") for i in block)
            view.add_row(Text(method), *shown)
        views.append(view)
    return views


def _split(architecture: str) -> tuple[int | None, str]:
    parts = architecture.split(",")
    for i, part in enumerate(parts):
        for pattern in _DEPTHS:
            if match := re.fullmatch(pattern, part):
                rest = [*parts[:i], match["rest"], *parts[i + 1 :]]
                return int(match["depth"]), ",".join(part for part in rest if part)
    return None, architecture


def _by_seed(rows: Iterable[Row], metric: str) -> Mapping[tuple[str, str, str, int], dict[int, float]]:
    factor = 100.0 if metric in PERCENT else 1.0
    values: dict[tuple[str, str, str, int], dict[int, float]] = {}
    for row in rows:
        values.setdefault((row.method, row.architecture, row.task, row.epochs), {})[row.seed] = factor * row.value
    return values


def _table(
    title: str,
    entries: Sequence[Entry],
    head: Callable[[Entry], str],
    metric: str | None,
    also: Sequence[str],
    common: str,
) -> Table:
    columns = tuple(dict.fromkeys(head(entry) for entry in entries))
    best = _best(entries, head, metric) if metric else {}
    cells = {}
    for entry in entries:
        is_best = entry.summary is not None and best.get(head(entry)) == entry.summary.mean
        cells[entry.method, head(entry)] = Cell(entry.text, is_best)
    methods = sorted(dict.fromkeys([*(entry.method for entry in entries), *also]), key=method_order)
    rows = tuple((method, tuple(cells.get((method, c), Cell(NONE)) for c in columns)) for method in methods)
    return Table(title, columns, rows, common)


def _best(entries: Sequence[Entry], head: Callable[[Entry], str], metric: str) -> dict[str, float]:
    means: dict[str, list[float]] = {}
    for entry in entries:
        if entry.summary is not None and isfinite(entry.summary.mean):
            means.setdefault(head(entry), []).append(entry.summary.mean)
    choose = min if metric.endswith(_LOWER_IS_BETTER) else max
    return {column: choose(values) for column, values in means.items() if len(values) > 1}


def _entry_order(entry: Entry) -> tuple[str, float, tuple[int, list[str | int], int, str]]:
    return entry.task, inf if entry.epochs is None else entry.epochs, architecture_order(entry.architecture)


def _join(*parts: str) -> str:
    return ", ".join(part for part in parts if part)
