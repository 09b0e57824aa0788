"""The verdict on every claim of the papers, from committed measurements."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, get_args

from lgx.errors import UserError
from lgx.results.comparison import compare, load_paper
from lgx.results.merging import find_results
from lgx.results.reproduction.recipes import Recipe
from lgx.results.verdicts import Answer, Verdict

_NONE = "–"


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

    headings: ClassVar[tuple[str, ...]] = ("table", "claim", "paper", "measured", "seeds", "cells", "verdict")

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
        if verdict.claim.is_stored:
            factors = (_NONE if factor is None else f"{factor:.1f}x" for factor in (verdict.paper, verdict.factor))
            return self.table, claim, *factors, _NONE, _NONE, self._answer()
        paper = _NONE if verdict.paper is None else f"{verdict.paper:+.1f}{' (sums)' if of_loss else ''}"
        if verdict.measured is None:
            return self.table, claim, paper, _NONE, _NONE, _NONE, verdict.answer
        summary, digits = verdict.measured.summary, 2 if of_loss else 1
        width = "" if summary.half_width is None else f" ± {summary.half_width:.{digits}f}"
        mark = " †" if verdict.undated else ""
        lead, seeds, cells = f"{summary.mean:+.{digits}f}{width}{mark}", str(summary.n), str(verdict.cells)
        return self.table, claim, paper, lead, seeds, cells, self._answer()

    def _answer(self) -> str:
        verdict = self.verdict
        answer: str = verdict.answer
        if answer not in ("confounded", "open", "not measured"):
            answer = f"**{answer}**"
        if verdict.seeds_needed is not None:
            answer += f", {verdict.seeds_needed} seeds would decide"
        return f"{answer} ({verdict.differs})" if verdict.differs else answer


def judged_claims(recipes: Iterable[Recipe], scale: str) -> list[JudgedClaim]:
    """Judge every claim by the committed measurements of a scale; what nobody measured is ``not measured``.

    Args:
        recipes: The tables and figures.
        scale: The scale.

    Raises:
        UserError: If a file of measurements is missing or damaged.
    """
    return [
        JudgedClaim(
            recipe.name,
            recipe.scales[scale].metric if scale in recipe.scales else "acc",
            verdict,
            verdict.claim in recipe.controls,
            recipe.scales[scale].split if scale in recipe.scales else "test",
        )
        for recipe in recipes
        for verdict in _verdicts(recipe, scale)
    ]


def _verdicts(recipe: Recipe, scale: str) -> list[Verdict]:
    how = recipe.scales.get(scale)
    claims = recipe.claims + recipe.controls
    if how is None or not how.measured:
        return [Verdict(claim, None, None, 0, "not measured") for claim in claims]
    options = recipe.options(scale, measured=True)
    try:
        return compare(find_results(how.measured), options, load_paper(options)).verdicts
    except UserError as error:
        raise UserError(f"{recipe.name}, {scale} scale: {error}") from error


def claims_as_markdown(claims: Iterable[JudgedClaim]) -> str:
    """A Markdown table of claims, and a line that counts the verdicts."""
    listed = list(claims)
    kinds = ["left" if heading in ("table", "claim", "verdict") else "right" for heading in JudgedClaim.headings]
    rules = ["---" if kind == "left" else "---:" for kind in kinds]
    lines = [_line(JudgedClaim.headings), _line(rules), *(_line(claim.cells()) for claim in listed)]
    counts = Counter(claim.verdict.answer for claim in listed if not claim.is_control)
    words = {"holds": "hold", "does not hold": "do not hold"}
    numbers = ", ".join(f"{counts[answer]} {words.get(answer, f'are {answer}')}" for answer in get_args(Answer))
    if any(claim.verdict.undated for claim in listed):
        lines += ["", "† Some of the values name no commit: they were measured before rows recorded it."]
    return "\n".join([*lines, "", f"Of {counts.total()} claims {numbers}."])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
