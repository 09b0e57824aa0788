"""What a paper says of two methods, ``tal > logah``, and whether the measured numbers agree."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, NamedTuple

from lgx.core.rows import Row
from lgx.errors import UserError
from lgx.results.averages import AVERAGE
from lgx.results.paper import TRAINED_AS, PaperRow, PaperTable
from lgx.results.statistics import Difference, paired_difference
from lgx.results.tables import PERCENT

When = Literal["untrained", "trained", ""]
Answer = Literal["holds", "does not hold", "open", "not measured"]
_LOWER_IS_BETTER = ("loss", "time")
_SHARING = re.compile(r",stages=[\d-]+")
"""How the layers of an auxiliary net share weights is what methods differ in, not what they are compared on."""
_WRITTEN = re.compile(r"(\w+) > (\w+)(?:, (untrained|trained))?")
# A variant that the framework takes by default has no word of its own in the method's name.
_DEFAULTS = ("order=1", "routing=batch", "priority=last-middle-first")


class Cell(NamedTuple):
    """What two methods are compared on."""

    task: str
    architecture: str
    epochs: int


@dataclass(frozen=True)
class Claim:
    """One method is better than another.

    Attributes:
        better: Name of the method that the paper says is better.
        worse: Name of the other.
        when: ``untrained``, ``trained``, or empty for both.
    """

    better: str
    worse: str
    when: When = ""

    @classmethod
    def parse(cls, text: str) -> "Claim":
        """Read ``tal > logah`` or ``tal > logah, untrained``.

        Raises:
            UserError: If it is written otherwise.
        """
        found = _WRITTEN.fullmatch(str(text))
        if found is None:
            raise UserError(
                f"claim {str(text)[:80]!r}: expected 'METHOD > METHOD', and perhaps ', untrained' or ', trained'"
            )
        when: When = "untrained" if found[3] == "untrained" else "trained" if found[3] else ""
        return cls(found[1], found[2], when)

    def __str__(self) -> str:
        return f"{self.better} > {self.worse}{', ' if self.when else ''}{self.when}"

    def covers(self, epochs: int | None) -> bool:
        """Whether it speaks of networks that were trained for so many epochs; None is not stated, which is not 0."""
        return not self.when or (self.when == "untrained") == (epochs == 0)


@dataclass(frozen=True)
class Verdict:
    """What the numbers say of a claim.

    Attributes:
        claim: The claim.
        paper: By how much the better method is ahead in the paper's own table, in its unit, in the mean over all that
            both have numbers of; None where it has none.
        measured: By how much it is ahead here, paired by seed, in the mean over the cells; None where one of the two
            was not measured.
        cells: Number of tasks × architectures × epochs that both were measured on.
        answer: ``holds`` or ``does not hold`` where the 95 % interval excludes 0, else ``open``.
    """

    claim: Claim
    paper: float | None
    measured: Difference | None
    cells: int
    answer: Answer


def judge(claim: Claim, rows: Iterable[Row], metric: str, paper: PaperTable | None = None) -> Verdict:
    """Compare two methods seed by seed, in the mean over all cells that both have for every seed.

    Args:
        claim: What the paper says.
        rows: Rows of one metric and one split; shares in [0, 1].
        metric: That metric.
        paper: The paper's table.

    Returns:
        The verdict. Differences are positive where the paper is right, in percent where the metric is a share.
    """
    sign = -1 if metric.endswith(_LOWER_IS_BETTER) else 1
    printed = _in_paper(claim, paper, metric) if paper else None
    ahead = None if printed is None else sign * printed
    own = [row for row in rows if claim.covers(row.epochs)]
    one, other = _by_seed(own, claim.better), _by_seed(own, claim.worse)
    seeds = sorted(one.keys() & other.keys())
    cells = set.intersection(*(one[s].keys() & other[s].keys() for s in seeds)) if seeds else set()
    if not cells:
        return Verdict(claim, ahead, None, 0, "not measured")
    factor = sign * (100 if metric in PERCENT else 1)
    means = [{s: factor * fmean(values[s][cell] for cell in cells) for s in seeds} for values in (one, other)]
    difference = paired_difference(*means)
    assert difference is not None, "there are common seeds"
    answer: Answer = "open"
    if difference.claimable:
        answer = "holds" if difference.summary.mean > 0 else "does not hold"
    return Verdict(claim, ahead, difference, len(cells), answer)


def _by_seed(rows: Sequence[Row], method: str) -> Mapping[int, Mapping[Cell, float]]:
    found: dict[int, dict[Cell, float]] = {}
    for row in rows:
        if row.method == method:
            cell = Cell(row.task, _SHARING.sub("", row.architecture), row.epochs)
            found.setdefault(row.seed, {})[cell] = row.value
    return found


def _in_paper(claim: Claim, paper: PaperTable, metric: str) -> float | None:
    rows = [row for row in paper.rows if row.metric == metric and claim.covers(row.epochs)]
    rows = [row for row in rows if AVERAGE not in (row.task, row.architecture)] or rows
    one, other = (
        {
            _place(row): row.value
            for row in rows
            if method_of(row) in (name, TRAINED_AS.get(name)) and row.value is not None
        }
        for name in (claim.better, claim.worse)
    )
    places = one.keys() & other.keys()
    return fmean(one[place] - other[place] for place in places) if places else None


def _place(row: PaperRow) -> tuple[str, str, int | None, str]:
    """What two numbers of a paper must share; where the variant is a part of the method's name, it is none of it."""
    return row.architecture, row.task, row.epochs, "" if _names(row) else row.variant


def _names(row: PaperRow) -> bool:
    return row.variant.partition("=")[0] in ("order", "routing", "priority")


def method_of(row: PaperRow) -> str:
    """The framework's name of a paper's method with its variant: ``lsamd_image``, ``lsamd_last_middle``."""
    if not _names(row) or row.variant in _DEFAULTS:
        return row.method
    return f"{row.method}_{row.variant.partition('=')[2].replace('-', '_')}"
