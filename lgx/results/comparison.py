"""Compare runs: which rows count, and the tables made of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lgx.core.rows import Row
from lgx.errors import UserError
from lgx.results.headline import average_section, headlines
from lgx.results.markdown import to_markdown_page
from lgx.results.merging import TITLE, Merged, count_whole_runs, find_results, last_epochs, merge
from lgx.results.metrics import Metrics
from lgx.results.paper import HOURS, PaperTable, load_table
from lgx.results.provenance import health_section
from lgx.results.report import Report, Section
from lgx.results.standings import Standing, chance_levels, standings
from lgx.results.tables import averages_of_paper, difference_section, table_section


@dataclass(frozen=True)
class Options:
    """Options of a comparison.

    Attributes:
        metric: Metric; ``acc`` is shown in percent.
        task_metrics: Metric of tasks that are judged on another one, by their names.
        split: ``test``, ``val`` or ``train``.
        paper: Name of a paper's table to show beside the measurements; None for none.
        baseline: Method that all others are compared with; None for none.
        methods: Names of the methods to show; empty for all.
        tasks: Names of the tasks to show; empty for all.
        labels: Label in the rows -> name under which the method is shown and judged, where it is another one.
        cost: Also show the cost of each method's descendants.
    """

    metric: str = "acc"
    split: str = "test"
    paper: str | None = None
    baseline: str | None = None
    methods: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    cost: bool = False
    task_metrics: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def metrics(self) -> Metrics:
        """The metric of each task."""
        return Metrics(self.metric, self.task_metrics)


@dataclass(frozen=True)
class Comparison:
    """What a comparison found.

    Attributes:
        options: Its options.
        merged: Rows of all runs.
        of_split: Rows of the metric and the split, of all epochs.
        shown: The rows that the tables summarize.
        introduction: Sentences on the rows, and on what was left out.
        sections: The tables.
        headline: The result in sentences, the most important first.
        standings: Averages for each number of epochs, ascending.
        levels: Chance levels by task, in percent.
    """

    options: Options
    merged: Merged
    of_split: list[Row]
    shown: list[Row]
    introduction: list[str]
    sections: list[Section]
    headline: list[str]
    standings: list[Standing]
    levels: dict[str, float]

    @property
    def rows(self) -> list[Row]:
        """The rows that the tables summarize."""
        return self.shown

    @property
    def report(self) -> Report:
        """The tables and their text."""
        return Report(TITLE, self.headline, self.introduction, self.sections)

    def to_markdown(self) -> str:
        """The tables and their text in Markdown."""
        return to_markdown_page(self.report)

    def _repr_markdown_(self) -> str:
        """What a notebook shows."""
        return self.to_markdown()


def compare(
    runs: str | Path | Sequence[str | Path], *, metric: str = "acc", split: str = "test", **options: Any
) -> Comparison:
    """Compare what runs have measured: the tables of ``lgx compare``. A notebook shows them.

    Args:
        runs: Folders, or files of rows.
        metric: Metric to show; ``acc`` in percent.
        split: ``test``, ``val`` or ``train``.
        options: Further fields of :class:`Options`, e.g. ``baseline="random"``, ``cost=True``.

    Returns:
        The comparison: ``rows``, ``sections`` with tables, ``to_markdown()``.

    Raises:
        UserError: If there are no such runs, rows or methods.
    """
    listed = [runs] if isinstance(runs, str | Path) else runs
    chosen = Options(metric=metric, split=split, **options)
    return compare_files(find_results([str(run) for run in listed]), chosen, load_paper(chosen))


def load_paper(options: Options) -> PaperTable | None:
    """The paper's table with the rows of the split; None without one.

    Raises:
        UserError: If there is no such table, or it has no number of the metric and split.
    """
    if options.paper is None:
        return None
    table = load_table(options.paper).of_split(options.split)
    hours = options.cost and any(row.unit == HOURS for row in table.rows)
    if not hours and not any(row.metric == options.metric for row in table.rows):
        other = "--split test" if options.split == "train" else "--split train --metric loss"
        remedy = f"--metric {_listed((row.metric for row in table.rows), ' or ')}" if table.rows else other
        raise UserError(f"{table.name} has no {options.metric}; give {remedy}")
    return table


def compare_files(files: Sequence[Path], options: Options, table: PaperTable | None = None) -> Comparison:
    """Compare the methods of runs.

    Args:
        files: Results files, see :func:`~lgx.results.merging.find_results`.
        options: Options.
        table: What :func:`load_paper` gives.

    Raises:
        UserError: If there are no such rows or methods.
    """
    split = options.split
    merged = _renamed(merge(files), options.labels)
    chosen = _chosen(merged.rows, options)
    of_paper = {row.epochs or 0 for row in table.rows} if table else set()
    shown, notes = last_epochs(chosen, of_paper)
    if split == "test":
        shown, earlier = count_whole_runs(shown, merged.rows, of_paper)
        notes += earlier
    found = standings(shown, options.metric, options.baseline)
    levels = chance_levels(shown, merged)
    averages = average_section(found, levels)
    means = averages_of_paper(shown, table) if table else []
    sections = [averages] if averages else []
    for metric in dict.fromkeys((options.metric, *sorted({row.metric for row in shown}))):
        if own := [row for row in [*shown, *means] if row.metric == metric]:
            printed = table if table and any(row.metric == metric for row in table.rows) else None
            sections.append(table_section(own, metric, split, printed))
    if options.baseline:
        sections.append(difference_section(shown, options.metric, options.baseline))
    if options.cost:
        from lgx.results.cost import cost_section  # reads networks, which other comparisons need not import
        from lgx.results.method_costs import method_costs

        costs, unknown = method_costs(chosen, merged.rows, merged.folders)
        notes += unknown
        sections.append(cost_section(costs, table))
    if (health := health_section(shown, merged)) is not None:
        sections.append(health)
    introduction = [_overview(shown), *merged.notes, *notes]
    return Comparison(options, merged, chosen, shown, introduction, sections, headlines(found, levels), found, levels)


def _renamed(merged: Merged, labels: Mapping[str, str]) -> Merged:
    return replace(merged, rows=[replace(row, method=labels.get(row.method, row.method)) for row in merged.rows])


def _chosen(rows: Sequence[Row], options: Options) -> list[Row]:
    """Rows of the metric, split, methods and tasks that were asked for."""
    metric, split, baseline = options.metric, options.split, options.baseline
    of_metric = [row for row in rows if row.metric == options.metrics.of(row.task)]
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
    """Rows of the methods or tasks that are named; all rows without names."""
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
