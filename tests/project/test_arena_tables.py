"""The arena's figures in the documentation follow from the committed rows."""

import re
from statistics import fmean

import pytest

from lgx.arena.arena_file import load_arena
from lgx.arena.points import read_points
from lgx.arena.sections import sections_of
from lgx.arena.verdicts import against_scratch, best_within, paired_difference, setbacks
from lgx.core.rows import read_rows
from lgx.results.markdown import to_markdown
from tests.support.paths import EXPERIMENTS, ROOT

ROWS = EXPERIMENTS / "results/arena_mini.csv"

pytestmark = pytest.mark.skipif(not ROWS.is_file(), reason="the arena at mini scale was not measured yet")


@pytest.fixture(scope="module")
def arena():
    return load_arena(EXPERIMENTS / "arena/mini.yaml")


@pytest.fixture(scope="module")
def curves(arena):
    return read_points(arena, read_rows(ROWS))


def test_the_tables_are_those_of_the_report(arena, curves):
    text = (EXPERIMENTS / "README.md").read_text()
    for section in sections_of(arena, curves)[:3]:
        for table in section.tables:
            for line in to_markdown(table).splitlines()[2:]:
                assert line in text, line


def test_more_training_from_scratch_never_ends_significantly_worse(curves):
    assert setbacks(curves, "random") == []


def test_the_readme_shows_lines_of_the_table(arena, curves):
    (table,) = sections_of(arena, curves)[1].tables
    lines = to_markdown(table).splitlines()
    shown = [
        line for line in (ROOT / "README.md").read_text().splitlines() if re.match(r"\| (flowers12|dtd10), ", line)
    ]
    assert shown
    assert set(shown) <= set(lines)


OWN = ("even_layers", "first_layers", "structured_pruning", "weight_selection", "weight_subcloning")
"""Starts that take the ancestor's own weights, and more than its last layers."""


@pytest.fixture(scope="module")
def text():
    return " ".join((EXPERIMENTS / "README.md").read_text().split())


@pytest.fixture(scope="module")
def differences(curves):
    """Start -> difference to scratch with the same total compute, after one and after four epochs."""
    return {
        start: [against_scratch(curves, start, "random", budget)[0] for budget in (1, 4)]
        for start in curves
        if start != "random"
    }


def sign(difference):
    """1 if significantly above scratch, -1 if significantly below, else 0."""
    return difference.claimable * (1 if difference.summary.mean > 0 else -1)


def accuracy(curves, start, place):
    """Percent by seed after four epochs."""
    return next(point.accuracy for point in curves[start][place] if point.budget == 4)


def test_three_seeds_of_fourteen_starts_are_measured(curves, text):
    assert "three seeds of fourteen starts" in text
    assert len(curves) == 14
    for places in curves.values():
        assert all(len(point.accuracy) == 3 for curve in places.values() for point in curve)


def test_the_ancestors_own_weights_are_best(arena, curves, differences, text):
    assert "all are significantly above scratch with the same total compute" in text
    assert {sign(found) for start in OWN for found in differences[start]} == {1}
    best = {
        best_within(curves, (task, size), flops).start
        for task in arena.tasks
        for size in arena.sizes
        for flops in (*(point.flops.total for point in curves["random"][task, size]), float("inf"))
    }
    assert best <= set(OWN)
    assert "With six layers of the ancestor's width they end within 4 points of each other" in text
    for task in arena.tasks:
        ends = [fmean(accuracy(curves, start, (task, "6x192")).values()) for start in OWN]
        assert max(ends) - min(ends) < 4
    assert "`even_layers` is significantly above `first_layers` on Flowers, and not on DTD" in text
    assert "structured pruning is significantly above weight selection on DTD, and not on Flowers" in text
    for first, second, size, task in (
        ("even_layers", "first_layers", "3x192", "flowers12"),
        ("structured_pruning", "weight_selection", "6x128", "dtd10"),
    ):
        for each in arena.tasks:
            found = paired_difference(*(accuracy(curves, start, (each, size)) for start in (first, second)))
            assert (sign(found) == 1) == (each == task), (first, each)


def test_the_last_layers_are_worth_less_than_the_first(differences, text):
    last, first = (differences[start][1].summary for start in ("vanilla_lg", "first_layers"))
    assert last.mean + last.half_width < first.mean - first.half_width
    assert f"{last.mean:.1f} ± {last.half_width:.1f} points above scratch after four epochs, `first_layers`" in text
    assert f"`first_layers` {first.mean:.1f} ± {first.half_width:.1f}." in text


def test_learngenes_are_where_the_text_says(curves, differences, text):
    assert "significantly above scratch with the same total compute after four epochs, and below it after one" in text
    assert [sign(found) for found in differences["sws"]] == [-1, 1]
    assert "After four epochs its means are below those of the five starts above on every task and size" in text
    for place in curves["sws"]:
        others = [accuracy(curves, start, place) for start in OWN if place in curves[start]]
        assert fmean(accuracy(curves, "sws", place).values()) < min(fmean(found.values()) for found in others), place
    assert "TLEG's learngene is below scratch" in text
    assert "WAVE's templates are significantly below scratch" in text
    assert "both ways of distilling are significantly below scratch with the same total compute" in text
    for start in ("tleg", "wave", "logits", "distilled"):
        assert [sign(found) for found in differences[start]] == [-1, -1]


def test_growth_and_mimetic_values_end_where_scratch_ends(differences, text):
    assert "growing a small network (`net2net`) and mimetic values end where scratch ends" in text
    assert [sign(differences[start][1]) for start in ("net2net", "mimetic")] == [0, 0]
