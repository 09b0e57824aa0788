"""A comparison beside a table of a paper: its numbers behind the measured ones, the whole table, its hours."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.reproduce.paper import HOURS, OVER, PaperTable, load_table
from lgx.core.rows import Row
from lgx.errors import UserError
from lgx.results.comparison import Comparison, Options, compare_files
from lgx.results.cost import COST
from lgx.results.report import EMPTY_CELL, Cell, Section
from lgx.results.statistics import Summary
from lgx.results.tables import Entry, arrange, measured, table_section, table_title


def compare_beside(files: Sequence[Path], options: Options, numbers: str) -> tuple[Comparison, PaperTable]:
    """Compare the methods of runs beside a table of a paper.

    Args:
        files: Results files, see :func:`~lgx.results.merging.find_results`.
        options: Options of the comparison.
        numbers: Name of the paper's table.

    Returns:
        The comparison, and the paper's table with the rows of the split.

    Raises:
        UserError: If there are no such rows, methods or table, or the table has no number of the metric and split.
    """
    paper = load_table(numbers).of_split(options.split)
    own_rows = [row for row in paper.rows if not row.variant.startswith(OVER)]  # leads belong to no cell
    if own_rows or not paper.rows:
        if not any(row.metric == options.metric or (options.cost and row.unit == HOURS) for row in own_rows):
            raise UserError(f"{numbers} has no {options.metric} of the {options.split} split")
        options = replace(options, epochs=frozenset(row.epochs or 0 for row in own_rows))
    found = compare_files(files, options)
    sections = {section.title: section for section in found.report.sections}
    for metric in {row.metric for row in found.rows}:
        own = [row for row in found.rows if row.metric == metric]
        sections[table_title(metric, options.split)] = section_beside(own, metric, options.split, paper)
    if COST in sections:
        sections[COST] = hours_beside(sections[COST], paper)
    return replace(found, report=replace(found.report, sections=list(sections.values()))), paper


def section_beside(rows: Sequence[Row], metric: str, split: str, paper: PaperTable) -> Section:
    """The tables of a metric beside those of a paper.

    The paper's number follows the measured one where method, architecture, task and epochs are the same. The whole
    table is shown beside, unless it has no number of the metric.

    Args:
        rows: Rows of one metric and one split, not empty.
        metric: That metric.
        split: That split.
        paper: The paper's table.
    """
    section, numbers = table_section(rows, metric, split), printed(paper, metric)
    if not numbers:
        return section
    entries, matched = [], 0
    for entry in measured(rows, metric):
        number = paper.find(entry.method, entry.architecture, entry.task, entry.epochs or 0, metric)
        matched += number is not None
        entries.append(entry if number is None else replace(entry, text=f"{entry.text}, paper {number:.10g}"))
    if matched:
        remark = f"The paper has a number for {matched} of {len(entries)} cells, behind the measured one."
    else:
        remark = (
            "The paper has no number for these architectures, tasks and epochs: the scales differ. Compare the order "
            "of the methods within each table, not the numbers."
        )
    notes = [f"{paper.source}: {paper.title}.", *(f"Note: {note}" for note in paper.notes)]
    beside = [replace(table, title=f"paper {paper.name}: {table.title}") for table in arrange(numbers, metric)]
    return replace(
        section,
        title=f"{section.title}, beside {paper.name}",
        text=[*section.text, remark, *notes],
        tables=[*arrange(entries, metric), *beside],
    )


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


def hours_beside(cost: Section, paper: PaperTable) -> Section:
    """The section of the cost, with the hours of training that the paper prints behind the measured ones."""
    hours = {row.method: f"{row.value:g}" for row in paper.rows if row.unit == HOURS and row.value}
    if not hours:
        return cost
    *others, training = cost.tables
    rows = tuple((method, (*cells, Cell(hours.get(method, EMPTY_CELL)))) for method, cells in training.rows)
    table = replace(training, columns=(*training.columns, "paper's hours"), rows=rows)
    source = " ".join([f"{paper.source}: {paper.title}.", *paper.notes])
    return replace(cost, text=[*cost.text, source], tables=[*others, table])
