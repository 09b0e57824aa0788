"""Claims of papers that one method is better than another (``tal > logah``), and whether measurements agree."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, NamedTuple

from lgx.core.rows import Row
from lgx.errors import UserError
from lgx.methods import registry
from lgx.results.metrics import lower_is_better, scale_of
from lgx.results.paper import AVERAGE, PaperRow, PaperTable, paper_names
from lgx.results.statistics import Difference, paired_difference

When = Literal["untrained", "trained", ""]
Answer = Literal["holds", "does not hold", "open", "not measured"]
_SHARING = re.compile(r",stages=[\d-]+")
"""Shared layers of an auxiliary net: methods differ in them, so that they do not distinguish cells."""
_WRITTEN = re.compile(r"(\w+) > (\w+)(?:, (untrained|trained))?")


class Cell(NamedTuple):
    """A place where two methods are compared."""

    task: str
    architecture: str
    epochs: int


@dataclass(frozen=True)
class Claim:
    """A paper's claim that one method is better than another.

    Attributes:
        better: Name of the method that is better according to the paper.
        worse: Name of the other method.
        when: ``untrained``, ``trained``, or empty for both.
    """

    better: str
    worse: str
    when: When = ""

    @classmethod
    def parse(cls, text: str) -> "Claim":
        """Read ``tal > logah`` or ``tal > logah, untrained``.

        Raises:
            UserError: If the text has another form.
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
        """Whether it is about networks after this many epochs; None means that the paper does not state them."""
        return not self.when or (self.when == "untrained") == (epochs == 0)


@dataclass(frozen=True)
class Verdict:
    """Whether the measurements support a claim.

    Attributes:
        claim: The claim.
        paper: Lead of the better method in the paper's table, in its unit, mean over all numbers that both have; None
            where the paper has none.
        measured: Measured lead, paired by seed, mean over the cells; None where one of the two was not measured.
        cells: Number of tasks × architectures × epochs on which both were measured.
        answer: ``holds`` or ``does not hold`` where the 95 % interval excludes 0, else ``open``.
    """

    claim: Claim
    paper: float | None
    measured: Difference | None
    cells: int
    answer: Answer


def judge(claim: Claim, rows: Iterable[Row], metric: str, paper: PaperTable | None = None) -> Verdict:
    """Compare two methods seed by seed, by the mean over all cells that both have for every seed.

    Args:
        claim: The claim.
        rows: Rows of one metric and one split; shares in [0, 1].
        metric: That metric.
        paper: The paper's table.

    Returns:
        The verdict. Differences are positive where the claim is right, and in percent where the metric is a share.
    """
    sign = -1 if lower_is_better(metric) else 1
    printed = _in_paper(claim, paper, metric) if paper else None
    ahead = None if printed is None else sign * printed
    own = [row for row in rows if claim.covers(row.epochs)]
    one, other = _by_seed(own, claim.better), _by_seed(own, claim.worse)
    seeds = sorted(one.keys() & other.keys())
    cells = set.intersection(*(one[s].keys() & other[s].keys() for s in seeds)) if seeds else set()
    if not cells:
        return Verdict(claim, ahead, None, 0, "not measured")
    factor = sign * scale_of(metric)
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
        {_place(row): row.value for row in rows if method_of(row) in paper_names(name) and row.value is not None}
        for name in (claim.better, claim.worse)
    )
    places = one.keys() & other.keys()
    return fmean(one[place] - other[place] for place in places) if places else None


def _place(row: PaperRow) -> tuple[str, str, int | None, str]:
    """What two numbers of a paper must share: everything but the method and the variant that its name includes."""
    return row.architecture, row.task, row.epochs, "" if _is_named(row) else row.variant


def _is_named(row: PaperRow) -> bool:
    """Whether the variant is a part of the method's name in results."""
    return row.variant.partition("=")[0] in {default.partition("=")[0] for default in _defaults(row)}


def _defaults(row: PaperRow) -> tuple[str, ...]:
    spec = registry.find_spec(row.method)
    return spec.variants if spec else ()


def method_of(row: PaperRow) -> str:
    """Name in results of a paper's method with its variant: ``lsamd_image``, ``lsamd_last_middle``."""
    if not _is_named(row) or row.variant in _defaults(row):
        return row.method
    return f"{row.method}_{row.variant.partition('=')[2].replace('-', '_')}"
