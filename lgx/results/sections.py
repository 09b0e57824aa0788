"""The tables of a comparison with the text that explains them."""

from collections.abc import Sequence

from lgx.core.rows import Row
from lgx.results.metrics import heading, in_words
from lgx.results.paper import PaperTable
from lgx.results.report import Section, Table
from lgx.results.statistics import caveat
from lgx.results.tables import arrange, differences, measured, printed


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
