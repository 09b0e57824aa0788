"""Whether measurements agree with a paper's claims."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose, sqrt
from statistics import fmean
from typing import Literal, NamedTuple, TypeVar

from experiments.reproduce.claims import Claim, Pairing, Side
from experiments.reproduce.paper import AVERAGE, OVER, PaperRow, PaperTable, paper_names, plain_name
from lgx.core.rows import Row
from lgx.errors import UserError
from lgx.results.architecture_names import depth_of
from lgx.results.comparison import Options
from lgx.results.metrics import lower_is_better, scale_of
from lgx.results.report import EMPTY_CELL
from lgx.results.statistics import Difference, Summary, margin, paired_difference
from lgx.results.tables import state

_ROUNDING = 1e-4
"""Largest relative difference of two measurements of one network."""
_MOST_SEEDS = 1000
Answer = Literal[
    "holds", "holds (smaller)", "reversed", "no difference found", "smaller than the paper's lead, if any",
    "computed", "not comparable", "not measured",
]  # fmt: skip
MEANINGS: Mapping[Answer, str] = {
    "holds": "the 95 % interval of the measured lead lies above 0",
    "holds (smaller)": "the interval lies above 0 and below the paper's lead",
    "reversed": "the interval lies below 0: the second method is ahead",
    "no difference found": "the interval includes 0, or there is only one seed",
    "smaller than the paper's lead, if any": "the interval includes 0 and ends below the paper's lead",
    "computed": "arithmetic agrees with the claim; nothing was measured",
    "not comparable": "the two sides differ in more than the method, so there is no verdict",
    "not measured": "at least one of the two methods was not measured",
}
_Row = TypeVar("_Row", Row, PaperRow)
_ACCURACY = Options()


class Condition(NamedTuple):
    """Under what a value was measured or printed, and under what two methods are compared.

    Attributes:
        task: Name of the task.
        architecture: Name of the architecture; empty for all.
        epochs: Epochs of training; None for the last.
        variant: What else distinguishes two numbers of a paper.
    """

    task: str
    architecture: str
    epochs: int | None
    variant: str = ""

    def paired(self, pairing: Pairing) -> "Condition":
        """The cell in which a pairing compares this value."""
        architecture = "" if pairing == "own networks" else self.architecture
        return self._replace(architecture=architecture, epochs=self.epochs if pairing == "same networks" else None)


_AUXILIARY = "Aux-"
"""Beginning of the names of auxiliary nets in papers."""


@dataclass(frozen=True)
class Verdict:
    """Whether the measurements support a claim.

    Attributes:
        claim: The claim.
        paper: Lead of the better method in the paper's table, in its unit, mean over all numbers that both have; for a
            claim about stored parameters, how many times fewer they are. None where the paper has none.
        measured: Measured lead, paired by seed, mean over the cells; None where one of the two was not measured.
        cells: Number of cells in which both were measured.
        answer: The verdict; :data:`MEANINGS` defines each word.
        differs: What the two sides do not share, in words: ``tal: 100 epochs, random: 200``; empty where all is equal.
        undated: Whether some of the values name no commit, so that their code is unknown.
        factor: How many times fewer parameters the better method stores; None where the claim is not about them, or
            one of the two numbers is unknown.
    """

    claim: Claim
    paper: float | None
    measured: Difference | None
    cells: int
    answer: Answer
    differs: str = ""
    undated: bool = False
    factor: float | None = None

    @property
    def seeds_needed(self) -> int | None:
        """Seeds whose interval would exclude 0, if mean and deviation stayed as measured; None where it does."""
        is_open = self.answer in ("no difference found", "smaller than the paper's lead, if any")
        return seeds_needed(self.measured.summary) if self.measured and is_open else None

    def line(self, of_paper: int = 2, digits: int = 2) -> tuple[str, str, str, str, str]:
        """Its line in a table: lead in the paper, measured lead, seeds, cells, answer.

        Args:
            of_paper: Decimals of the paper's lead, and of factors.
            digits: Decimals of the measured lead.
        """
        if self.claim.is_stored:
            one, other = (
                EMPTY_CELL if number is None else f"{number:.{of_paper}f}x" for number in (self.paper, self.factor)
            )
            return one, other, EMPTY_CELL, EMPTY_CELL, self.answer
        paper = EMPTY_CELL if self.paper is None else f"{self.paper:+.{of_paper}f}"
        if self.measured is None:
            return paper, EMPTY_CELL, EMPTY_CELL, EMPTY_CELL, self.answer
        summary = self.measured.summary
        width = "" if summary.half_width is None else f" ± {summary.half_width:.{digits}f}"
        return paper, f"{summary.mean:+.{digits}f}{width}", str(summary.n), str(self.cells), self.answer


def judge(
    claim: Claim,
    rows: Iterable[Row],
    paper: PaperTable | None = None,
    options: Options = _ACCURACY,
    confounded: str = "",
) -> Verdict:
    """Compare two methods seed by seed, by the mean over all cells that both have for every seed.

    Args:
        claim: The claim; one about stored parameters is judged by :func:`~experiments.reproduce.storage.judge_storage`.
        rows: Rows of one split; one metric for each task. Shares are in [0, 1].
        paper: The paper's table.
        options: Those of the comparison, with the metric that counts for each task.
        confounded: What else than the method differs between the two sides; empty for nothing.

    Returns:
        The verdict. Differences are positive where the claim is right, and in percent where the metric is a share.

    Raises:
        UserError: If a method has two different values of one measurement.
    """
    ahead = _in_paper(claim, paper, options) if paper else None
    given = list(rows)
    sides = [_of_side(given, side) for side in claim.sides]
    one, other = (_by_seed(own, claim.pairing) for own in sides)
    seeds = sorted(one.keys() & other.keys())
    cells = set.intersection(*(one[s].keys() & other[s].keys() for s in seeds)) if seeds else set()
    if not cells or (any(claim.words) and sides[0] == sides[1]):  # a single depth is the deepest and the shallowest
        return Verdict(claim, ahead, None, 0, "not measured")
    means = [{s: fmean(values[s][cell] for cell in cells) for s in seeds} for values in (one, other)]
    difference = paired_difference(*means)
    assert difference is not None, "there are common seeds"
    # Losses of papers are sums over epochs, in another unit than ours.
    printed = None if lower_is_better(options.metric) else ahead
    answer: Answer = "not comparable" if confounded else _answer(difference, printed)
    undated = any(not row.commit for own in sides for row in own)
    differs = confounded or _differs(sides, claim, cells)
    return Verdict(claim, ahead, difference, len(cells), answer, differs, undated)


def seeds_needed(summary: Summary) -> int | None:
    """Seeds whose interval would exclude 0 if mean and standard deviation stayed as they are.

    Returns:
        Their number; None without an interval, with equal differences, or above 1,000.
    """
    if not summary.half_width:  # equal differences show no noise
        return None
    deviation = summary.half_width * sqrt(summary.n) / margin(summary.n)
    counts = range(2, _MOST_SEEDS + 1)
    return next((n for n in counts if abs(summary.mean) > margin(n) * deviation / sqrt(n)), None)


def _answer(difference: Difference, printed: float | None) -> Answer:
    """What a measured lead says about a claim, given the lead that the paper printed."""
    mean, half_width = difference.summary.mean, difference.summary.half_width
    is_smaller = bool(half_width) and printed is not None and mean + (half_width or 0.0) < printed
    if difference.claimable and mean < 0:
        return "reversed"
    if difference.claimable:
        return "holds (smaller)" if is_smaller else "holds"
    return "smaller than the paper's lead, if any" if is_smaller else "no difference found"


def _of_side(rows: Iterable[_Row], side: Side) -> list[_Row]:
    """The rows that one side of a claim is about."""
    own = [row for row in rows if _name(row) in _names(side, row) and side.covers(row.epochs)]
    if not side.depth:
        return own
    chosen = max if side.depth == "deepest" else min
    depths: dict[str, set[int]] = {}
    for row in own:
        if (depth := depth_of(row.architecture)) is not None:
            depths.setdefault(row.task, set()).add(depth)
    return [row for row in own if row.task in depths and depth_of(row.architecture) == chosen(depths[row.task])]


def _name(row: Row | PaperRow) -> str:
    return row.method if isinstance(row, Row) else row.result_name


def _names(side: Side, row: Row | PaperRow) -> set[str]:
    """Names of the side's method: those of papers in their numbers."""
    return {side.method} if isinstance(row, Row) else paper_names(side.method)


def _by_seed(rows: Iterable[Row], pairing: Pairing) -> dict[int, dict[Condition, float]]:
    """Seed -> cell -> value, positive where more is better; two different values of one cell are refused."""
    found: dict[int, dict[Condition, float]] = {}
    for row in rows:
        sign = -1 if lower_is_better(row.metric) else 1
        value = sign * scale_of(row.metric) * row.value
        cell, values = Condition(row.task, row.architecture, row.epochs), found.setdefault(row.seed, {})
        if cell in values and not isclose(values[cell], value, rel_tol=_ROUNDING):
            where = f"{row.task}, {row.architecture}, {state(row.epochs)}, seed {row.seed}"
            raise UserError(f"{row.method} has two values of {row.metric} on {where}; give one another model.label")
        values[cell] = value
    return {seed: _cells(values, pairing) for seed, values in found.items()}


def _cells(values: Mapping[Condition, float], pairing: Pairing) -> dict[Condition, float]:
    """The value of each cell: that of the last epochs, in the mean over the architectures that the cell holds."""
    last: dict[tuple[str, str, str], int] = {}
    for cell in values:
        network = cell.task, cell.architecture, cell.variant
        last[network] = max(cell.epochs or 0, last.get(network, 0))
    groups: dict[Condition, list[float]] = {}
    for cell, value in values.items():
        is_last = (cell.epochs or 0) == last[cell.task, cell.architecture, cell.variant]
        if pairing == "same networks" or is_last:
            groups.setdefault(cell.paired(pairing), []).append(value)
    return {cell: fmean(own) for cell, own in groups.items()}


def _differs(rows: Sequence[Sequence[Row]], claim: Claim, cells: Collection[Condition]) -> str:
    """What each side ran in the compared cells, where a claim allows that to differ."""
    if claim.pairing == "same networks":
        return ""
    conditions = {
        str(side): {
            condition
            for row in own
            if (condition := Condition(row.task, row.architecture, row.epochs)).paired(claim.pairing) in cells
        }
        for side, own in zip(claim.sides, rows, strict=True)
    }
    names = sorted({condition.architecture for own in conditions.values() for condition in own})
    common = set.intersection(*(set(name.split(",")) for name in names))
    sides = {}
    for name, own in conditions.items():
        last: dict[tuple[str, str], int] = {}
        for condition in own:
            last[condition.task, condition.architecture] = max(condition.epochs or 0, last.get(condition[:2], 0))
        counts = sorted(set(last.values()))
        sides[name] = f"{' or '.join(map(str, counts))} epoch{'s' * (counts != [1])}"
        if claim.pairing == "own networks" and len(names) > 1:
            short = {
                ",".join(p for p in condition.architecture.split(",") if p not in common) or "plain"
                for condition in own
            }
            sides[name] += f" of {' and '.join(sorted(short))}"
    return "" if len(set(sides.values())) == 1 else "; ".join(f"{name}: {ran}" for name, ran in sides.items())


def _in_paper(claim: Claim, paper: PaperTable, options: Options) -> float | None:
    over = f"{OVER}{claim.worse}"
    stated = [row for row in paper.rows if row.variant == over and row.method in paper_names(claim.better)]
    if stated:
        return fmean(row.value for row in stated if row.value is not None)
    names = {paper.task_name(task): metric for task, metric in options.task_metrics.items()}
    own = replace(options, task_metrics=names)
    of_metric = (row for row in paper.rows if row.metric == own.metric_of(row.task))
    rows = [row for row in of_metric if any(side.covers(row.epochs) for side in claim.sides)]
    rows = [row for row in rows if AVERAGE not in (row.task, row.architecture)] or rows
    if claim.pairing != "own networks":  # auxiliary nets are sources; claims are about their descendants
        rows = [row for row in rows if not row.architecture.startswith(_AUXILIARY)] or rows
    one, other = (
        _cells(
            {
                _condition(row): -row.value if lower_is_better(row.metric) else row.value
                for row in _of_side(rows, side)
                if row.value is not None
            },
            claim.pairing,
        )
        for side in claim.sides
    )
    common = one.keys() & other.keys()
    return fmean(one[cell] - other[cell] for cell in common) if common else None


def _condition(row: PaperRow) -> Condition:
    """What two numbers of a paper must share, with the variant unless the method's name includes it."""
    return Condition(row.task, plain_name(row.architecture), row.epochs, "" if row.is_named_variant else row.variant)
