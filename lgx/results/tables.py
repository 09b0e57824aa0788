"""Tables of rows: methods × descendants × tasks, mean over seeds with interval, and the text that explains them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from statistics import fmean

from lgx.core.rows import Row
from lgx.results.architecture_names import architecture_order, short_names
from lgx.results.looks import method_order
from lgx.results.metrics import heading, in_words, lower_is_better, number, scale_of
from lgx.results.paper import AVERAGE, PaperTable
from lgx.results.report import EMPTY_CELL, Cell, Section, Table
from lgx.results.statistics import Summary, caveat, paired_difference, summarize


@dataclass(frozen=True)
class Entry:
    """One cell of a table.

    Attributes:
        method: Name of the method.
        architecture: Name of the architecture.
        task: Name of the task.
        epochs: Epochs after initialization; None where a paper does not state them.
        summary: Mean over seeds as shown (shares in percent); None where a paper has a word instead.
        text: Text of the cell.
        paper: The paper's number for it, in the paper's unit; None where there is none.
    """

    method: str
    architecture: str
    task: str
    epochs: int | None
    summary: Summary | None
    text: str
    paper: float | None = None


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


def measured(rows: Iterable[Row], metric: str, paper: PaperTable | None = None) -> list[Entry]:
    """Summarize rows over seeds: an entry for each method, architecture, task and number of epochs.

    Args:
        rows: Rows of one metric and one split.
        metric: That metric; shares are converted to percent.
        paper: Table of a paper; its number follows the measured one of the same method, architecture, task and epochs.
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


def printed(paper: PaperTable, metric: str) -> list[Entry]:
    """The paper's numbers of one metric as entries; a variant follows its method in parentheses."""
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


def table_section(rows: Sequence[Row], metric: str, split: str, paper: PaperTable | None = None) -> Section:
    """Methods × descendants × tasks, with the paper's numbers where a table of a paper is given.

    Args:
        rows: Rows of one metric and one split, not empty.
        metric: That metric.
        split: That split.
        paper: Table to compare with. Its number follows the measured one where method, architecture, task and epochs
            are the same. The whole table is shown beside.
    """
    entries = measured(rows, metric, paper)
    title = f"{in_words(metric).capitalize()}{heading(metric).removeprefix(metric)} on the {split} split"
    text = ["Bold is the best mean of a column, whether or not chance explains it."]
    text.append(caveat([entry.summary.n for entry in entries if entry.summary]))
    if paper is None:
        return Section(title, text, arrange(entries, metric))
    numbers = printed(paper, metric)
    matched = sum(entry.paper is not None for entry in entries)
    if matched:
        text.append(f"The paper has a number for {matched} of {len(entries)} cells, behind the measured one.")
    else:
        text.append(
            "The paper has no number for these architectures, tasks and epochs: the scales differ. Compare the order "
            "of the methods within each table, not the numbers."
        )
    text.append(f"{paper.source}: {paper.title}.")
    text += [f"Note: {note}" for note in paper.notes]
    beside = [
        Table(f"paper {paper.name}: {table.title}", table.columns, table.rows, table.common)
        for table in arrange(numbers, metric)
    ]
    return Section(f"{title}, beside {paper.name}", text, [*arrange(entries, metric), *beside])


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
        "Paired over the seeds (their number in parentheses) that both have; * where the 95 % interval excludes 0. "
        "p is of the two-sided paired t-test; it needs two seeds and is not corrected for the number of comparisons."
    )
    return Section(title, [text], arrange(entries, metric, mark_best=False))


def averages_of_paper(rows: Iterable[Row], paper: PaperTable) -> list[Row]:
    """Rows of the task ``average`` for a table that has it, wherever all of its tasks were measured.

    Args:
        rows: Rows of one metric and one split.
        paper: The table; without other tasks than ``average`` there are no such rows.
    """
    tasks = {row.task for row in paper.rows}
    if AVERAGE not in tasks or len(tasks) == 1:
        return []
    groups: dict[tuple[str, str, int, int], dict[str, Row]] = {}
    for row in rows:
        groups.setdefault((row.method, row.architecture, row.epochs, row.seed), {})[paper.task_name(row.task)] = row
    members = sorted(tasks - {AVERAGE})
    complete = [measured for measured in groups.values() if measured.keys() >= set(members)]
    values = [[measured[task] for task in members] for measured in complete]
    return [
        replace(rows[0], task=AVERAGE, value=fmean(row.value for row in rows), n=sum(row.n for row in rows))
        for rows in values
    ]


def arrange(entries: Sequence[Entry], metric: str, mark_best: bool = True) -> list[Table]:
    """Arrange entries as tables with a line for each method.

    Each number of epochs has tables of its own. Columns are architectures (a table for each task) or tasks (a table for
    each architecture), whichever gives fewer tables. With one architecture and one task, columns are epochs.

    Args:
        entries: The entries.
        metric: Their metric, which determines whether larger or smaller values are better.
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
    return [_table(name, group, head, metric if mark_best else None, common) for name, group in groups.items()]


def _by_seed(rows: Iterable[Row], metric: str) -> Mapping[tuple[str, str, str, int], dict[int, float]]:
    factor = scale_of(metric)
    values: dict[tuple[str, str, str, int], dict[int, float]] = {}
    for row in rows:
        values.setdefault((row.method, row.architecture, row.task, row.epochs), {})[row.seed] = factor * row.value
    return values


def _table(
    title: str,
    entries: Sequence[Entry],
    head: Callable[[Entry], str],
    metric: str | None,
    common: str,
) -> Table:
    columns = tuple(dict.fromkeys(head(entry) for entry in entries))
    best = _best(entries, head, metric) if metric else {}
    cells = {}
    for entry in entries:
        is_best = entry.summary is not None and best.get(head(entry)) == entry.summary.mean
        cells[entry.method, head(entry)] = Cell(entry.text, is_best)
    methods = sorted({entry.method for entry in entries}, key=method_order)
    rows = tuple((method, tuple(cells.get((method, c), Cell(EMPTY_CELL)) for c in columns)) for method in methods)
    return Table(title, columns, rows, common)


def _best(entries: Sequence[Entry], head: Callable[[Entry], str], metric: str) -> dict[str, float]:
    means: dict[str, list[float]] = {}
    for entry in entries:
        if entry.summary is not None and isfinite(entry.summary.mean):
            means.setdefault(head(entry), []).append(entry.summary.mean)
    choose = min if lower_is_better(metric) else max
    return {column: choose(values) for column, values in means.items() if len(values) > 1}


def _entry_order(entry: Entry) -> tuple[str, float, tuple[int, list[str | int], int, str]]:
    return entry.task, inf if entry.epochs is None else entry.epochs, architecture_order(entry.architecture)


def _join(*parts: str) -> str:
    return ", ".join(part for part in parts if part)
