"""The parts of a comparison: tables with the text that explains them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lgx.core.rows import Row
from lgx.methods import registry
from lgx.results.cost import MethodCost, epochs_table, macs_table, storage_table
from lgx.results.looks import label_of, method_order
from lgx.results.metrics import heading, in_words
from lgx.results.paper import HOURS, PaperTable
from lgx.results.statistics import caveat
from lgx.results.tables import NONE, Cell, Table, arrange, differences, measured, printed
from lgx.results.verdicts import Verdict


@dataclass(frozen=True)
class Drawing:
    """A figure in a report.

    Attributes:
        svg: The ``<svg>`` element with legend, trusted.
        label: Description for readers who cannot see it.
        caption: Text below it, which says what to look at.
        panels: Its panels without legend, an ``<svg>`` element each; a page shows them in place of ``svg``.
    """

    svg: str
    label: str
    caption: str
    panels: Sequence[str] = ()


@dataclass(frozen=True)
class Item:
    """A term and its explanation.

    Attributes:
        term: The term.
        text: Sentences on it.
        url: Where to read more; empty for none.
    """

    term: str
    text: str
    url: str = ""


@dataclass(frozen=True)
class Section:
    """A part of a comparison.

    Attributes:
        title: Its title.
        text: Paragraphs before tables and figures.
        tables: Tables, side by side where the page is wide enough.
        drawings: Figures.
        items: Terms that are explained, after the text.
        below: Paragraphs after everything else.
        legend: Glyph (an ``<svg>`` element) and words of each line style that the panels of the figures use.
    """

    title: str
    text: Sequence[str] = ()
    tables: Sequence[Table] = ()
    drawings: Sequence[Drawing] = ()
    items: Sequence[Item] = ()
    below: Sequence[str] = ()
    legend: Sequence[tuple[str, str]] = ()


def table_section(rows: Sequence[Row], metric: str, split: str, paper: PaperTable | None = None) -> Section:
    """Methods × descendants × tasks, with the paper's numbers where a table of a paper is given.

    Args:
        rows: Rows of one metric and one split, not empty.
        metric: That metric.
        split: That split.
        paper: Table to compare with. Its number follows the measured one where method, architecture, task and epochs
            are the same. The whole table is shown beside, with its methods in the same order.
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
    methods = [*(entry.method for entry in entries), *(number.method for number in numbers)]
    beside = [
        Table(f"paper {paper.name}: {table.title}", table.columns, table.rows, table.common)
        for table in arrange(numbers, metric, methods)
    ]
    own = arrange(entries, metric, () if matched else methods)
    return Section(f"{title}, beside {paper.name}", text, [*own, *beside])


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
    rows = tuple((str(verdict.claim), _verdict_cells(verdict)) for verdict in verdicts)
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


def _verdict_cells(verdict: Verdict) -> tuple[Cell, ...]:
    answer = Cell(verdict.answer, best=verdict.answer == "holds")
    if verdict.claim.is_stored:
        factors = (NONE if factor is None else f"{factor:.2f}x" for factor in (verdict.paper, verdict.factor))
        return *map(Cell, factors), Cell(NONE), Cell(NONE), answer
    measured = verdict.measured
    width = measured.summary.half_width if measured else None
    ahead = f"{measured.summary.mean:+.2f}" if measured else NONE
    return (
        Cell(NONE if verdict.paper is None else f"{verdict.paper:+.2f}"),
        Cell(ahead if width is None else f"{ahead} ± {width:.2f}"),
        Cell(str(measured.summary.n if measured else 0)),
        Cell(str(verdict.cells)),
        answer,
    )


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


def cost_section(costs: Sequence[MethodCost], paper: PaperTable | None = None) -> Section:
    """Cost of the descendants with each method.

    Args:
        costs: The cost of at least one method.
        paper: Table whose hours of training stand beside ours, where it has any.
    """
    hours = {row.method: row.value for row in paper.rows if row.unit == HOURS and row.value} if paper else {}
    text = [
        "Stored are the parameters that start all architectures, compared with a pretrained network for each of them.",
        "Tuning is the training of all descendants, one per architecture and task. The last columns compare two other "
        "ways with the method's own training, learngene and tuning together: training the same descendants from "
        "scratch, as measured with a random start, and pretraining every architecture for as long as the learngene was "
        "trained, followed by the same tuning. The ratios leave out ancestors, which the papers take as given.",
        "In epochs every epoch counts the same, as in the papers. In MACs an image costs three forward passes of the "
        "network, which includes the backward pass, and one forward pass of the teacher if there is one. A dash means "
        "not measured or unknown, for example the MACs of a hypernetwork, whose networks change with every step.",
    ]
    if paper and hours:
        text.append(" ".join([f"{paper.source}: {paper.title}.", *paper.notes]))
    return Section("Cost", text, [storage_table(costs), epochs_table(costs), macs_table(costs, hours)])


def method_section(names: Iterable[str]) -> Section:
    """The methods of a report: for each its labels and names in the tables, what it does, and its paper.

    Args:
        names: Names in results.
    """
    ordered = sorted(set(names), key=method_order)
    specs = {name: registry.find_spec(name) for name in ordered}
    items = []
    for spec in dict.fromkeys(spec for spec in specs.values() if spec):
        own = ", ".join(f"{label_of(name)} ({name})" for name, found in specs.items() if found is spec)
        items.append(Item(own, f"{spec.summary} {spec.paper}.".strip(), spec.url))
    undeclared = [name for name, spec in specs.items() if spec is None]
    rest = f"Names that no installed method declares: {', '.join(undeclared)}. The runs' configurations chose them."
    return Section("Methods", items=items, below=[rest] if undeclared else [])
