"""Compare runs: select rows and make tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lgx.core.rows import Row
from lgx.errors import UserError
from lgx.results.headline import average_section, headlines
from lgx.results.markdown import to_markdown_page
from lgx.results.merging import TITLE, Merged, count_whole_runs, find_results, last_epochs, merge
from lgx.results.metrics import ACCURACY, fair_metric
from lgx.results.provenance import health_section
from lgx.results.report import Report
from lgx.results.standings import Standing, chance_levels, standings
from lgx.results.tables import difference_section, table_section


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


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        options: Its options.
        merged: Rows of all runs.
        of_split: Rows of the metric and the split, of all epochs.
        rows: The rows that the tables summarize.
        report: The tables and their text.
        standings: Averages for each number of epochs, ascending.
        levels: Chance levels by task, in percent.
    """

    options: Options
    merged: Merged
    of_split: list[Row]
    rows: list[Row]
    report: Report
    standings: list[Standing]
    levels: dict[str, float]

    def to_markdown(self) -> str:
        """The tables and their text in Markdown."""
        return to_markdown_page(self.report)

    def _repr_markdown_(self) -> str:
        """The text for a notebook."""
        return self.to_markdown()


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
    chosen = _chosen(merged.rows, options)
    shown, notes = last_epochs(chosen, options.epochs)
    notes = fair_notes + notes
    if split == "test":
        shown, earlier = count_whole_runs(shown, merged.rows, options.epochs)
        notes += earlier
    found = standings(shown, options.metric, options.baseline)
    levels = chance_levels(shown, merged)
    averages = average_section(found, levels)
    sections = [averages] if averages else []
    for metric in dict.fromkeys((options.metric, *sorted({row.metric for row in shown}))):
        if rows_of_metric := [row for row in shown if row.metric == metric]:
            sections.append(table_section(rows_of_metric, metric, split))
    if options.baseline:
        sections.append(difference_section(shown, options.metric, options.baseline))
    if options.cost:
        from lgx.results.cost import cost_section, method_costs  # reads networks, which others need not import

        costs, unknown = method_costs(chosen, merged.rows, merged.folders)
        notes += unknown
        sections.append(cost_section(costs))
    if (health := health_section(shown, merged)) is not None:
        sections.append(health)
    report = Report(TITLE, headlines(found, levels), [_overview(shown), *merged.notes, *notes], sections)
    return Comparison(options, merged, chosen, shown, report, found, levels)


def _chosen(rows: Sequence[Row], options: Options) -> list[Row]:
    """Rows of the requested metric, split, methods and tasks."""
    metric, split, baseline = options.metric, options.split, options.baseline
    of_metric = [row for row in rows if row.metric == options.task_metrics.get(row.task, options.metric)]
    if not of_metric:
        raise UserError(f"no {metric} was measured; give --metric {_listed((row.metric for row in rows), ' or ')}")
    chosen = [row for row in of_metric if row.split == split]
    if not chosen:
        measured = _listed((row.split for row in of_metric), " or ")
        raise UserError(f"no {metric} was measured on the {split} split; give --split {measured}")
    chosen = _only(_only(chosen, "task", options.tasks), "method", options.methods)
    if baseline and baseline not in {row.method for row in chosen}:
        raise UserError(f"baseline {baseline!r} was not measured; methods are {_listed(row.method for row in chosen)}")
    return chosen


def _only(rows: Sequence[Row], kind: str, names: Sequence[str]) -> list[Row]:
    """Rows of the named methods or tasks; all rows without names."""
    if not names:
        return list(rows)
    measured = {getattr(row, kind) for row in rows}
    if unknown := set(names) - measured:
        raise UserError(f"--{kind}s: {_listed(unknown)} not measured; {kind}s are {_listed(measured)}")
    return [row for row in rows if getattr(row, kind) in names]


def _overview(rows: Sequence[Row]) -> str:
    seeds = ", ".join(str(seed) for seed in sorted({row.seed for row in rows}))
    counts = sorted({row.n for row in rows})
    examples = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{len(rows)} values of {len({row.run for row in rows})} run(s), seeds {seeds}, {examples} examples each."


def _listed(words: Iterable[str], joint: str = ", ") -> str:
    return joint.join(sorted(set(words)))
