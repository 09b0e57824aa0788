"""Compare runs: select rows and make tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lgx.core.rows import Row
from lgx.errors import UserError
from lgx.results.compute import Curves, compute_sections, random_start, read_curves
from lgx.results.merging import Merged, count_whole_runs, find_results, last_epochs, merge, names_of_runs
from lgx.results.metrics import ACCURACY, fair_metric, lower_is_better
from lgx.results.report import Report, Section, to_markdown_page
from lgx.results.tables import difference_section, table_section

_TITLE = "Comparison of initializations"


@dataclass(frozen=True)
class Options:
    """Options of a comparison.

    Attributes:
        metric: Metric; ``acc`` is shown in percent.
        task_metrics: Name of a task -> its metric, for tasks with another metric.
        split: ``test``, ``val`` or ``train``.
        baseline: Method that all others are compared with; None for none.
        methods: Names of the methods to show; empty for all.
        tasks: Names of the tasks to show; empty for all.
        labels: Label in the rows -> name for tables and verdicts, if it differs.
        cost: Also show the cost of each method's descendants.
        epochs: Epochs to show besides untrained networks and the last epoch of each run.
        fair: Whether a test is judged on :func:`~lgx.results.metrics.fair_metric` in place of ``metric``.
    """

    metric: str = "acc"
    split: str = "test"
    baseline: str | None = None
    methods: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    cost: bool = False
    task_metrics: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    epochs: frozenset[int] = frozenset()
    fair: bool = False

    def metric_of(self, task: str) -> str:
        """The metric of a task."""
        return self.task_metrics.get(task, self.metric)


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        options: Its options.
        merged: Rows of all runs.
        of_split: Rows of the metric and the split, of all epochs.
        rows: The rows that the tables summarize.
        report: The tables and their text.
        curves: Curves over compute; empty without rows of costs.
    """

    options: Options
    merged: Merged
    of_split: list[Row]
    rows: list[Row]
    report: Report
    curves: Curves

    def to_markdown(self) -> str:
        """The tables and their text in Markdown."""
        return to_markdown_page(self.report)

    _repr_markdown_ = to_markdown  # a notebook shows it


def compare(
    runs: str | Path | Sequence[str | Path], *, metric: str | None = None, split: str = "test", **options: Any
) -> Comparison:
    """Compare what runs have measured: the tables of ``lgx compare``. A notebook shows them.

    Args:
        runs: Folders, or files of rows.
        metric: Metric to show; None for ``acc``, or ``balanced_acc`` if the classes of a test have different sizes.
        split: ``test``, ``val`` or ``train``.
        options: Further fields of :class:`Options`, e.g. ``baseline="random"``, ``cost=True``.

    Returns:
        The comparison: ``rows``, ``report`` with tables, ``to_markdown()``.

    Raises:
        UserError: If there are no such runs, rows or methods.
    """
    listed = [runs] if isinstance(runs, str | Path) else runs
    chosen = Options(metric=metric or ACCURACY, split=split, fair=metric is None, **options)
    return compare_files(find_results([str(run) for run in listed]), chosen)


def compare_files(files: Sequence[Path], options: Options) -> Comparison:
    """Compare the methods of runs.

    Args:
        files: Results files, see :func:`~lgx.results.merging.find_results`.
        options: Options.

    Raises:
        UserError: If there are no such rows or methods.
    """
    split = options.split
    merged = merge(files, split)
    renamed = [replace(row, method=options.labels.get(row.method, row.method)) for row in merged.rows]
    merged = replace(merged, rows=renamed)
    fair_notes: list[str] = []
    if options.fair and split == "test":
        metric, fair_notes = fair_metric(merged.rows, merged.folders)
        options = replace(options, metric=metric)
    of_split = _of_split(merged.rows, options)
    shown, notes = last_epochs(of_split, options.epochs)
    if split == "test":
        shown, earlier = count_whole_runs(shown, merged.rows, options.epochs)
        notes += earlier
    names = names_of_runs(shown)
    merged = replace(merged, rows=_named(merged.rows, names))
    of_split = _chosen(_named(of_split, names), options)
    shown = _chosen(_named(shown, names), options)
    sections = _sections(shown, options)
    curves = _curves(merged.rows, shown, options)
    rival = options.baseline or random_start(curves)
    if rival is not None and rival in curves and len(curves) > 1:
        sections[:0] = compute_sections(curves, rival)
    if options.cost:
        from lgx.results.cost import cost_section, method_costs  # reads networks, which others need not import

        costs, unknown = method_costs(of_split, merged.rows, merged.folders)
        notes += unknown
        sections.append(cost_section(costs))
    introduction = [_overview(shown), *merged.notes, *fair_notes, *notes, *_left_out(merged.rows, shown, options)]
    return Comparison(options, merged, of_split, shown, Report(_TITLE, introduction, sections), curves)


def _named(rows: Iterable[Row], names: Mapping[tuple[str, str], str]) -> list[Row]:
    return [replace(row, method=names.get((row.method, row.run), row.method)) for row in rows]


def _sections(shown: Sequence[Row], options: Options) -> list[Section]:
    """The tables of each metric, and the differences to the baseline."""
    sections = []
    for metric in dict.fromkeys((options.metric, *sorted({row.metric for row in shown}))):
        of_metric = [row for row in shown if row.metric == metric]
        if of_metric:
            sections.append(table_section(of_metric, metric, options.split))
    if options.baseline:
        sections.append(difference_section(shown, options.metric, options.baseline))
    return sections


def _curves(rows: Sequence[Row], shown: Sequence[Row], options: Options) -> Curves:
    """Curves over compute of the shown methods and tasks; empty for a metric whose smaller values are better."""
    if options.split != "test" or lower_is_better(options.metric):
        return {}
    methods = {row.method for row in shown}
    tasks = {row.task for row in shown}
    return read_curves((row for row in rows if row.method in methods and row.task in tasks), options.metric)


def _of_split(rows: Sequence[Row], options: Options) -> list[Row]:
    """Rows of the requested metric and split."""
    metric, split = options.metric, options.split
    of_metric = [row for row in rows if row.metric == options.metric_of(row.task)]
    if not of_metric:
        raise UserError(f"no {metric} was measured; give --metric {_listed((row.metric for row in rows), ' or ')}")
    chosen = [row for row in of_metric if row.split == split]
    if not chosen:
        measured = _listed((row.split for row in of_metric), " or ")
        raise UserError(f"no {metric} was measured on the {split} split; give --split {measured}")
    return chosen


def _chosen(rows: Sequence[Row], options: Options) -> list[Row]:
    """Rows of the requested methods and tasks."""
    chosen = _only(_only(rows, "task", options.tasks), "method", options.methods)
    baseline = options.baseline
    if baseline and baseline not in {row.method for row in chosen}:
        raise UserError(f"baseline {baseline!r} was not measured; methods are {_listed(row.method for row in chosen)}")
    return chosen


def _only(rows: Sequence[Row], kind: str, names: Sequence[str]) -> list[Row]:
    """Rows of the named methods or tasks; all rows without names."""
    if not names:
        return list(rows)
    measured = {getattr(row, kind) for row in rows}
    unknown = set(names) - measured
    if unknown:
        raise UserError(f"--{kind}s: {_listed(unknown)} not measured; {kind}s are {_listed(measured)}")
    return [row for row in rows if getattr(row, kind) in names]


def _overview(rows: Sequence[Row]) -> str:
    seeds = ", ".join(str(seed) for seed in sorted({row.seed for row in rows}))
    counts = sorted({row.n for row in rows})
    examples = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{len(rows)} values of {len({row.run for row in rows})} run(s), seeds {seeds}, {examples} examples each."


def _left_out(rows: Sequence[Row], shown: Sequence[Row], options: Options) -> list[str]:
    """A sentence on the tasks of the split that were not measured with the metric."""
    tasks = {row.task for row in rows if row.split == options.split} - {row.task for row in shown}
    if not tasks or options.tasks:
        return []
    return [f"Not shown, because their {options.metric} was not measured: {_listed(tasks)}; see --metric."]


def _listed(words: Iterable[str], joint: str = ", ") -> str:
    return joint.join(sorted(set(words)))
