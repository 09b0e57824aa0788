"""The tables of a comparison with the text that explains them."""

from collections.abc import Sequence

from lgx.core.rows import Row
from lgx.results.metrics import heading, in_words
from lgx.results.paper import PaperTable
from lgx.results.report import Cell, Section, Table
from lgx.results.statistics import caveat
from lgx.results.tables import arrange, differences, measured, printed
from lgx.results.verdicts import Verdict


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


def claim_section(verdicts: Sequence[Verdict]) -> Section:
    """The paper's claims and their verdicts.

    Args:
        verdicts: One for each claim, not empty.
    """
    text = (
        "Lead of the first method over the second, mean over all tasks, architectures and epochs that both have (own "
        "epochs: each after its last; own networks: each in the mean over its own architectures): in the paper's "
        "table, and as measured, paired by seed, with half of a 95 % interval. A claim holds, or does not hold, where "
        "the interval excludes 0. It is smaller than in the paper where the interval includes 0 and ends below the "
        "paper's lead. Otherwise it is open, which is always the case with one seed."
    )
    factors = "Stored: how many times fewer parameters the first method stores to start all descendants. It is a count."
    columns = ("paper", "measured", "seeds", "cells", "verdict")
    rows = tuple((str(verdict.claim), _cells(verdict)) for verdict in verdicts)
    notes = [f"{verdict.claim}: {verdict.differs}." for verdict in verdicts if verdict.differs]
    notes += [
        f"{verdict.claim}: {verdict.seeds_needed} seeds would decide, if mean and deviation stayed as measured."
        for verdict in verdicts
        if verdict.seeds_needed is not None
    ]
    if any(verdict.undated for verdict in verdicts):
        notes.append("Some of the compared values name no commit, so that their code is unknown.")
    texts = [text, factors] if any(verdict.claim.is_stored for verdict in verdicts) else [text]
    return Section("The paper's claims", [*texts, *notes], [Table("", columns, rows, first="claim")])


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


def _cells(verdict: Verdict) -> tuple[Cell, ...]:
    *numbers, answer = verdict.line()
    return *map(Cell, numbers), Cell(answer, best=answer == "holds")
