"""Sentences of the documentation, and values of committed rows as they stand there."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from statistics import fmean

from lgx.core.rows import Row, read_rows
from lgx.results.statistics import Difference, paired_difference, summarize
from tests.support.paths import EXPERIMENTS

Chosen = Callable[[Row], bool]
BySeed = dict[int, float]


@cache
def page(path: Path) -> str:
    """A page in one line, without bold."""
    return " ".join(path.read_text().replace("**", "").split())


@cache
def section(title: str) -> str:
    """A section of experiments/README.md in one line, without bold."""
    body = re.split(r"\n##+ ", (EXPERIMENTS / "README.md").read_text().split(f"# {title}\n", 1)[1])[0]
    return " ".join(body.replace("**", "").split())


@cache
def committed(*names: str) -> tuple[Row, ...]:
    """All rows of committed files of results."""
    return tuple(row for name in names for row in read_rows(EXPERIMENTS / "results" / f"{name}.csv"))


def measured(*names: str, metric: str = "acc") -> list[Row]:
    """Rows of the test, of one metric."""
    return [row for row in committed(*names) if (row.split, row.metric) == ("test", metric)]


def of(task: str = "", arch: str = "", epochs: Callable[[int], bool] = lambda _: True) -> Chosen:
    """Rows of a task, of architectures with these parts of a specification, after some epochs."""
    parts = arch.split()
    return lambda row: (
        task in ("", row.task) and all(f"{part}," in f"{row.architecture}," for part in parts) and epochs(row.epochs)
    )


def untrained(epochs: int) -> bool:
    return epochs == 0


def trained(epochs: int) -> bool:
    return epochs > 0


def points(own: list[Row], method: str, chosen: Chosen) -> BySeed:
    """Seed -> mean over a method's rows, in percent."""
    rows = [row for row in own if row.method == method and chosen(row)]
    return {seed: 100 * fmean(row.value for row in rows if row.seed == seed) for seed in sorted({r.seed for r in rows})}


def mean(values: Mapping[int, float]) -> float:
    return fmean(values.values())


def ahead(method: Mapping[int, float], baseline: Mapping[int, float]) -> Difference:
    """The paired difference, which must exist."""
    found = paired_difference(method, baseline)
    assert found is not None
    return found


def plain(found: Difference, digits: int = 1) -> str:
    """Size of a difference with half of its interval, without its sign."""
    assert found.summary.half_width is not None
    return f"{abs(found.summary.mean):.{digits}f} ± {found.summary.half_width:.{digits}f}"


def signed(found: Difference, digits: int = 1) -> str:
    assert found.summary.half_width is not None
    return f"{found.summary.mean:+.{digits}f} ± {found.summary.half_width:.{digits}f}"


def lead(one: BySeed, other: BySeed) -> str:
    """A paired difference; * where its interval excludes 0."""
    found = ahead(one, other)
    return signed(found) + (r"\*" if found.claimable else "")


def spread(values: Mapping[int, float], digits: int = 1) -> str:
    """Mean and half of the interval over the seeds."""
    found = summarize(list(values.values()))
    return f"{found.mean:.{digits}f} ± {found.half_width:.{digits}f}"


def paper(table: str, claim: str) -> str:
    """What the paper has for a claim, by the table of verdicts, which tests/project/test_readme.py recomputes."""
    text = (EXPERIMENTS / "README.md").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {table} | {claim} |"))
    return line.split(" | ")[2].removeprefix("+").removesuffix(" (sums)")


def holds(text: str, *fragments: str) -> None:
    """Assert that a text has all fragments."""
    assert [fragment for fragment in fragments if fragment not in text] == []
