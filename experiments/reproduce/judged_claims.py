"""The verdict on every claim of the papers, from committed measurements."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar, TypeVar

from experiments.reproduce.judging import compare_and_judge
from experiments.reproduce.recipes import Recipe
from experiments.reproduce.verdicts import MEANINGS, Answer, Verdict
from lgx.errors import UserError
from lgx.results.comparison import Options
from lgx.results.merging import find_results
from lgx.results.report import EMPTY_CELL, piped

_SCALE = "mini"
Key = TypeVar("Key")


@dataclass(frozen=True)
class JudgedClaim:
    """A claim about a table or figure with its verdict.

    Attributes:
        table: Name of the table or figure.
        metric: Metric that is compared.
        verdict: The verdict.
        is_control: Whether the comparison is ours, not the paper's.
        split: Split on which the metric was measured.
    """

    headings: ClassVar[tuple[str, ...]] = ("table", "claim", "paper", "measured", "p", "seeds", "cells", "verdict")

    table: str
    metric: str
    verdict: Verdict
    is_control: bool = False
    split: str = "test"

    def cells(self) -> tuple[str, ...]:
        """Its line in a table, see ``headings``."""
        verdict, of_loss = self.verdict, self.metric == "loss"
        loss = ": training loss" if self.split == "train" else ": loss"
        claim = f"{verdict.claim}{loss * of_loss}{' (control)' * self.is_control}"
        paper, lead, seeds, cells, _ = verdict.line(1, 2 if of_loss else 1)
        paper += " (sums)" if of_loss and paper != EMPTY_CELL else ""
        lead += " †" if verdict.undated and verdict.measured else ""
        p = p_in_words(verdict.measured.p if verdict.measured else None)
        return self.table, claim, paper, lead, p, seeds, cells, self._answer()

    @property
    def evidence(self) -> tuple[object, ...]:
        """What two claims of different tables share if they rest on the same rows."""
        return str(self.verdict.claim), self.verdict.measured or self.table, self.verdict.cells, self.metric, self.split

    def _answer(self) -> str:
        verdict = self.verdict
        answer: str = verdict.answer
        if answer in ("holds", "holds (smaller)", "reversed"):
            answer = f"**{answer}**"
        if verdict.seeds_needed is not None:
            answer += f", {verdict.seeds_needed} seeds would decide"
        return f"{answer} ({verdict.differs})" if verdict.differs else answer


def p_in_words(p: float | None) -> str:
    """A p-value in a table."""
    return EMPTY_CELL if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def judged_claims(recipes: Iterable[Recipe]) -> list[JudgedClaim]:
    """Judge every claim by the committed measurements, at mini scale; what nobody measured is ``not measured``.

    Raises:
        UserError: If a file of measurements is missing or damaged.
    """
    judged = []
    for recipe in recipes:
        options = recipe.scales[_SCALE].options if _SCALE in recipe.scales else Options()
        for verdict in _verdicts(recipe):
            is_control = verdict.claim in recipe.controls
            judged.append(JudgedClaim(recipe.name, options.metric, verdict, is_control, options.split))
    return judged


def _verdicts(recipe: Recipe) -> list[Verdict]:
    how = recipe.scales.get(_SCALE)
    claims = recipe.claims + recipe.controls
    if how is None or not how.measured:
        return [Verdict(claim, None, None, 0, "not measured") for claim in claims]
    try:
        judging = recipe.judging(_SCALE, measured=True)
        return compare_and_judge(find_results(how.measured), how.options, judging)[1]
    except UserError as error:
        raise UserError(f"{recipe.name}, {_SCALE} scale: {error}") from error


def holm(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """p-values of several claims, adjusted by the method of Holm (1979): as if each claim were one of all."""
    ordered = sorted(p_values.items(), key=lambda item: item[1])
    scaled = (min(1.0, (len(ordered) - rank) * p) for rank, (_, p) in enumerate(ordered))
    return {key: p for (key, _), p in zip(ordered, accumulate(scaled, max), strict=True)}


def adjusted(claims: Iterable[JudgedClaim]) -> dict[tuple[object, ...], float]:
    """Evidence of each of the papers' claims with a verdict -> its adjusted p-value; controls have none."""
    judged = [claim for claim in claims if not claim.is_control and claim.verdict.answer != "not comparable"]
    return holm({c.evidence: c.verdict.measured.p for c in judged if c.verdict.measured and c.verdict.measured.p})


def claims_as_markdown(claims: Iterable[JudgedClaim], family: Iterable[JudgedClaim] = ()) -> str:
    """A Markdown table of claims, and a line that counts the verdicts; claims on the same rows count once.

    Args:
        claims: The claims.
        family: All claims among which p-values are adjusted; empty for these.
    """
    listed = list(claims)
    p_values = adjusted(list(family) or listed)
    place = JudgedClaim.headings.index("p") + 1
    headings = (*JudgedClaim.headings[:place], "p (Holm)", *JudgedClaim.headings[place:])
    rules = ["---" if heading in ("table", "claim", "verdict") else "---:" for heading in headings]
    first: dict[tuple[object, ...], str] = {}
    cells = []
    for claim in listed:
        *others, answer = claim.cells()
        others.insert(place, EMPTY_CELL if claim.is_control else p_in_words(p_values.get(claim.evidence)))
        is_again = first.setdefault(claim.evidence, claim.table) != claim.table
        cells.append((*others, f"as {first[claim.evidence]}" if is_again else answer))
    lines = [piped([headings, rules, *cells])]
    counts = count_answers(listed)
    numbers = ", ".join(f"{counts[answer]} {answer}" for answer in MEANINGS)
    if any(claim.verdict.undated for claim in listed):
        lines += ["", "† Some of the values name no commit: they were measured before rows recorded it."]
    return "\n".join([*lines, "", f"{counts.total()} claims: {numbers}."])


def count_answers(claims: Iterable[JudgedClaim]) -> Counter[Answer]:
    """How many of the papers' claims have each verdict; claims on the same rows count once, controls do not count."""
    first: dict[tuple[object, ...], str] = {}
    listed = [claim for claim in claims if first.setdefault(claim.evidence, claim.table) == claim.table]
    return Counter(claim.verdict.answer for claim in listed if not claim.is_control)
