"""Tables of rows: methods × descendants × tasks, mean over seeds with interval, and the text that explains them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan

from lgx.core.rows import Row
from lgx.methods.registry import method_order
from lgx.results.architecture_names import architecture_order, short_names
from lgx.results.metrics import heading, in_words, lower_is_better, number, scale_of
from lgx.results.report import EMPTY_CELL, Cell, Section, Table
from lgx.results.statistics import Summary, is_equal, paired_difference, summarize


@dataclass(frozen=True)
class Entry:
    """One cell of a table.

    Attributes:
        method: Name of the method.
        architecture: Name of the architecture.
        task: Name of the task.
        epochs: Epochs after initialization; None if not stated.
        summary: Mean over seeds as shown (shares in percent); None for a word instead.
        text: Text of the cell.
    """

    method: str
    architecture: str
    task: str
    epochs: int | None
    summary: Summary | None
    text: str


def state(epochs: int | None) -> str:
    """``untrained``, ``after 10 epochs``, ..."""
    if epochs is None:
        return "epochs not stated"
    return f"after {epochs} epoch{'s' if epochs > 1 else ''}" if epochs else "untrained"


def summary_text(summary: Summary, metric: str, sign: str = "") -> str:
    """``mean ± half width (n)``; without ± for one seed."""
    mean = (sign if summary.mean >= 0 else "") + number(summary.mean, metric)
    width = "" if summary.half_width is None else f" ± {number(summary.half_width, metric)}"
    return f"{mean}{width} ({summary.n})"


def measured(rows: Iterable[Row], metric: str) -> list[Entry]:
    """Summarize rows over seeds: an entry for each method, architecture, task and number of epochs.

    Args:
        rows: Rows of one metric and one split.
        metric: That metric; shares are converted to percent.
    """
    entries = []
    for (method, architecture, task, epochs), values in _by_seed(rows, metric).items():
        summary = summarize([values[seed] for seed in sorted(values)])
        entries.append(Entry(method, architecture, task, epochs, summary, summary_text(summary, metric)))
    return entries


def differences(rows: Iterable[Row], metric: str, baseline: str) -> list[Entry]:
    """Paired difference of every method to ``baseline`` over common seeds.

    The text has a * where the 95 % interval excludes 0, and the p-value.

    Args:
        rows: Rows of one metric and one split.
        metric: That metric; shares are converted to percent.
        baseline: Name of the method to compare with.
    """
    by_seed = _by_seed(rows, metric)
    entries = []
    for (method, architecture, task, epochs), values in by_seed.items():
        difference = paired_difference(values, by_seed.get((baseline, architecture, task, epochs), {}))
        if method != baseline and difference is not None:
            text = summary_text(difference.summary, metric, "+") + difference.marks
            entries.append(Entry(method, architecture, task, epochs, difference.summary, text))
    return entries


def table_section(rows: Sequence[Row], metric: str, split: str) -> Section:
    """Methods × descendants × tasks.

    Args:
        rows: Rows of one metric and one split, not empty.
        metric: That metric.
        split: That split.
    """
    entries = measured(rows, metric)
    text = (
        "Bold is the best mean of a column, significant or not. ± is half of a 95 % confidence interval over seeds "
        "(Student t); a cell of one seed has none, and supports no claim. About one interval in twenty misses the "
        "true value."
    )
    return Section(table_title(metric, split), [text], arrange(entries, metric))


def table_title(metric: str, split: str) -> str:
    """Title of the section with the tables of a metric."""
    return f"{in_words(metric).capitalize()}{heading(metric).removeprefix(metric)} on the {split} split"


def difference_section(rows: Sequence[Row], metric: str, baseline: str) -> Section:
    """Paired differences of all methods to one.

    Args:
        rows: Rows of one metric and one split.
        metric: That metric.
        baseline: Method to compare with.
    """
    entries = differences(rows, metric, baseline)
    title = f"Difference to {baseline}"
    if not entries:
        return Section(title, [f"No method was measured with a seed, task, architecture and epochs of {baseline}."])
    text = (
        "Paired over common seeds (their number in parentheses); * if the 95 % interval excludes 0. Equal "
        "differences of all seeds have no interval and no *. p is from the two-sided paired t-test; it needs two "
        "seeds and is not corrected for the number of comparisons."
    )
    return Section(title, [text], arrange(entries, metric, mark_best=False))


def arrange(entries: Sequence[Entry], metric: str, mark_best: bool = True) -> list[Table]:
    """Arrange entries as tables with a line for each method.

    Each number of epochs has tables of its own. Columns are architectures (a table for each task) or tasks (a table for
    each architecture), whichever gives fewer tables. With one architecture and one task, columns are epochs.

    Args:
        entries: The entries.
        metric: Their metric, which determines whether larger or smaller values are better.
        mark_best: Whether to mark the best method of each column.
    """
    architectures = {entry.architecture for entry in entries}
    tasks = {entry.task for entry in entries}
    short = short_names(architectures)
    title: Callable[[Entry], str]
    head: Callable[[Entry], str]
    if len(architectures) == len(tasks) == 1:
        title, head = (lambda e: _join(e.task, e.architecture)), (lambda e: state(e.epochs))
    elif len(tasks) <= len(architectures):
        title, head = (lambda e: _join(e.task, state(e.epochs))), (lambda e: short[e.architecture])
    else:
        title, head = (lambda e: _join(e.architecture, state(e.epochs))), (lambda e: e.task)
    groups: dict[str, list[Entry]] = {}
    for entry in sorted(
        entries, key=lambda e: (e.task, inf if e.epochs is None else e.epochs, architecture_order(e.architecture))
    ):
        groups.setdefault(title(entry), []).append(entry)
    return [_table(name, group, head, metric if mark_best else None) for name, group in groups.items()]


def _by_seed(rows: Iterable[Row], metric: str) -> Mapping[tuple[str, str, str, int], dict[int, float]]:
    factor = scale_of(metric)
    values: dict[tuple[str, str, str, int], dict[int, float]] = {}
    for row in rows:
        values.setdefault((row.method, row.architecture, row.task, row.epochs), {})[row.seed] = factor * row.value
    return values


def _table(title: str, entries: Sequence[Entry], head: Callable[[Entry], str], metric: str | None) -> Table:
    columns = tuple(dict.fromkeys(head(entry) for entry in entries))
    best = _best(entries, head, metric) if metric else {}
    cells = {}
    for entry in entries:
        is_best = entry.summary is not None and is_equal(entry.summary.mean, best.get(head(entry), nan))
        cells[entry.method, head(entry)] = Cell(entry.text, is_best)
    methods = sorted({entry.method for entry in entries}, key=method_order)
    rows = tuple((method, tuple(cells.get((method, c), Cell(EMPTY_CELL)) for c in columns)) for method in methods)
    return Table(title, columns, rows)


def _best(entries: Sequence[Entry], head: Callable[[Entry], str], metric: str) -> dict[str, float]:
    means: dict[str, list[float]] = {}
    for entry in entries:
        if entry.summary is not None and isfinite(entry.summary.mean):
            means.setdefault(head(entry), []).append(entry.summary.mean)
    choose = min if lower_is_better(metric) else max
    return {column: choose(values) for column, values in means.items() if len(values) > 1}


def _join(*parts: str) -> str:
    return ", ".join(part for part in parts if part)
