"""Values of committed rows by seed, as pages insert them, and guards of the conclusions that rest on them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.reproduce.judged_claims import holm, p_in_words
from lgx.core.rows import Row
from lgx.results.statistics import paired_difference, summarize

_FORMS = {"loss": (1, 2), "perplexity": (1, 1)}
"""Metric that is no share -> factor, and digits behind the point."""
KEYS = ("task", "depth", "width", "epochs", "seeds", "metric", "split")


class Refuted(Exception):
    """The rows no longer say what a page concludes; the message has the conclusion and the numbers."""


@dataclass(frozen=True)
class Lead:
    """A difference, paired by seed.

    Attributes:
        mean: In the unit of the values.
        half: Half of its 95 % interval.
        is_significant: Whether the interval excludes 0.
        digits: Digits behind the point on pages.
        p: Of the paired t-test; None where all differences are equal.
    """

    mean: float
    half: float
    is_significant: bool
    digits: int
    p: float | None = None

    def __str__(self) -> str:
        return f"{self.mean:+.{self.digits}f} ± {self.half:.{self.digits}f}"

    @property
    def plain(self) -> str:
        """Without its sign."""
        return f"{abs(self.mean):.{self.digits}f} ± {self.half:.{self.digits}f}"

    @property
    def sign(self) -> str:
        """``+`` where it is significantly ahead, ``-`` behind, ``0`` neither."""
        return "0" if not self.is_significant else "+" if self.mean > 0 else "-"

    @property
    def starred(self) -> str:
        """With a star where the interval excludes 0."""
        return f"{self}" + r"\*" * self.is_significant


class Leads(list[Lead]):
    """Several leads of one method over another."""

    def __str__(self) -> str:
        return ", ".join(map(str, self))

    @property
    def signs(self) -> str:
        """The signs of all, in order."""
        return "".join(lead.sign for lead in self)

    @property
    def least(self) -> float:
        """The smallest mean."""
        return min(lead.mean for lead in self)

    @property
    def most(self) -> float:
        """The largest mean."""
        return max(lead.mean for lead in self)

    @property
    def span(self) -> str:
        """From the smallest to the largest mean."""
        return f"{self.least:.1f} to {self.most:.1f}"


@dataclass(frozen=True)
class Values:
    """A measured value by seed.

    Attributes:
        name: What was measured, for messages.
        by_seed: Seed -> value; shares in percent.
        digits: Digits behind the point on pages.
    """

    name: str
    by_seed: Mapping[int, float]
    digits: int = 1

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return fmean(self.by_seed.values())

    @property
    def only(self) -> str:
        """The mean without its interval."""
        return f"{self.mean:.{self.digits}f}"

    @property
    def each(self) -> str:
        """The values of the seeds: ``1.0, 2.0 and 3.0``."""
        *others, last = (f"{value:.{self.digits}f}" for _, value in sorted(self.by_seed.items()))
        return f"{', '.join(others)} and {last}" if others else last

    def __str__(self) -> str:
        half = summarize(list(self.by_seed.values())).half_width
        return self.only if half is None else f"{self.only} ± {half:.{self.digits}f}"

    def __sub__(self, other: "Values") -> Lead:
        found = paired_difference(self.by_seed, other.by_seed)
        if found is None or found.summary.half_width is None:
            raise Refuted(f"{self.name} and {other.name} have fewer than two seeds in common")
        return Lead(found.summary.mean, found.summary.half_width, found.claimable, self.digits, found.p)


def adjusted_p(**leads: Lead) -> dict[str, str]:
    """The p-values of several leads, adjusted by the method of Holm, in words; refused unless all are below 0.05."""
    p_values = holm({name: lead.p for name, lead in leads.items() if lead.p is not None})
    for name, lead in leads.items():
        require(p_values.get(name, 1) < 0.05, f"{name} is significant among {len(leads)} claims", lead, p_values)
    return {name: f"p {p_in_words(p) if p < 0.001 else f'= {p:.3f}'}" for name, p in p_values.items()}


def binomial(percent: float, n: int) -> float:
    """Half of the 95 % interval of a share of n examples, in points."""
    return 1.96 * sqrt(percent * (100 - percent) / n)


def average(*several: Values) -> Values:
    """The mean of several values, seed by seed."""
    seeds = set.intersection(*(set(values.by_seed) for values in several))
    means = {seed: fmean(values.by_seed[seed] for values in several) for seed in sorted(seeds)}
    return replace(several[0], name=f"mean of {' and '.join(values.name for values in several)}", by_seed=means)


def ahead(one: Values, other: Values) -> str:
    """By how much one is ahead of the other, without a sign; refused unless it is, significantly."""
    lead = one - other
    require(lead.sign == "+", f"{one.name} is significantly ahead of {other.name}", lead)
    return lead.plain


def level(one: Values, other: Values) -> Lead:
    """By how much one is ahead of the other; refused if the difference is significant."""
    lead = one - other
    require(not lead.is_significant, f"{one.name} and {other.name} do not differ significantly", lead)
    return lead


def require(is_so: bool, conclusion: str, *numbers: object) -> str:
    """Nothing where a conclusion still holds.

    Raises:
        Refuted: If it does not; the message has the conclusion and the numbers.
    """
    if not is_so:
        raise Refuted(f"the rows no longer say that {conclusion}: {', '.join(map(str, numbers)) or 'see the rows'}")
    return ""


class Measured:
    """Rows of committed files of results.

    Args:
        rows: The rows.
        label: Pattern in the name of a run whose first group takes the place of the row's method.
        others: Whether rows of other runs count, too, under their own method.
        where: What all rows must have, see :meth:`get`.
    """

    def __init__(self, rows: Iterable[Row], label: str = "", others: bool = True, **where: Any) -> None:
        self.rows: dict[tuple[str, str, str], list[Row]] = {}
        for row in rows:
            found = re.search(label, Path(row.run).parts[-2]) if label else None
            if found or others:
                self.rows.setdefault((found[1] if found else row.method, row.metric, row.split), []).append(row)
        self.where = {"metric": "acc", "split": "test", **where}

    def __call__(self, method: str, **where: Any) -> Values:
        """Like :meth:`get`, for what must exist."""
        found = self.get(method, **where)
        if found is None:
            raise Refuted(f"no row has method {method} and {where}")
        return found

    def get(self, method: str, **where: Any) -> Values | None:
        """Mean over the rows of a method, by seed; None where there is none.

        Args:
            method: Name of the method; ``{key}`` stands for a value of ``where``.
            where: ``task`` and ``seeds`` (one or a list), ``depth``, ``width``, ``metric``, ``split``, and ``epochs``
                (a number, ``untrained`` or ``trained``).
        """
        chosen = {**self.where, **where}
        if unknown := [key for key in chosen if key not in KEYS and f"{{{key}}}" not in method]:
            raise Refuted(f"{', '.join(unknown)}: rows are not chosen by this; use {', '.join(KEYS)}")
        name = method.format(**chosen)
        measured = str(chosen["metric"])
        own = [row for row in self.rows.get((name, measured, chosen["split"]), ()) if _matches(row, chosen)]
        scale, digits = _FORMS.get(measured, (1, 0) if measured.startswith("seconds") else (100, 1))
        seeds = sorted({row.seed for row in own})
        if len({sum(row.seed == seed for row in own) for seed in seeds}) > 1:
            raise Refuted(
                f"{name} has rows of {where} that some of the seeds {seeds} lack, so that means do not compare"
            )
        values = {seed: scale * fmean(row.value for row in own if row.seed == seed) for seed in seeds}
        words = [f"{value}" for key, value in chosen.items() if key not in ("metric", "split")]
        return Values(", ".join([name, *words]), values, digits) if values else None


def _matches(row: Row, where: Mapping[str, Any]) -> bool:
    sizes = dict(
        part.split("=", 1)
        for part in row.architecture.partition(",config=")[0].split(":")[-1].split(",")
        if "=" in part
    )
    own: dict[str, set[object]] = {
        "task": {row.task, row.task.removeprefix("mini_")},
        "depth": {int(sizes.get("depth", 0))},
        "width": {int(sizes.get("embed_dim", 0))},
        "epochs": {row.epochs, "trained" if row.epochs else "untrained"},
        "seeds": {row.seed},
        "metric": {row.metric},
        "split": {row.split},
    }
    choices = {key: wanted if isinstance(wanted, list | range) else [wanted] for key, wanted in where.items()}
    return all(own[key].intersection(wanted) for key, wanted in choices.items() if key in own)
