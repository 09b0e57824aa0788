"""The arena's figures in the documentation follow from the committed rows."""

import re

import pytest

from lgx.arena.arena_file import load_arena
from lgx.arena.points import read_points
from lgx.arena.sections import sections_of
from lgx.arena.verdicts import against_scratch, best_within, setbacks
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
    refusals = {("pretrained", size): "refused" for size in arena.sizes}
    for section in sections_of(arena, curves, refusals)[:3]:
        for table in section.tables:
            for line in to_markdown(table).splitlines()[2:]:
                assert line in text, line


def test_more_training_from_scratch_never_ends_significantly_worse(curves):
    assert setbacks(curves, "random") == []


def test_the_readme_shows_lines_of_the_table(arena, curves):
    (table,) = sections_of(arena, curves, {})[1].tables
    lines = to_markdown(table).splitlines()
    shown = [
        line for line in (ROOT / "README.md").read_text().splitlines() if re.match(r"\| (flowers12|dtd10), ", line)
    ]
    assert shown
    assert set(shown) <= set(lines)


def test_the_conclusions_follow_from_the_rows(arena, curves):
    text = " ".join((EXPERIMENTS / "README.md").read_text().split())
    one, four = (
        {start: against_scratch(curves, start, "random", budget)[0] for start in curves if start != "random"}
        for budget in (1, 4)
    )
    assert "significantly above scratch with the same total compute after four epochs, and below it after one" in text
    assert four["sws"].claimable
    assert four["sws"].summary.mean > 0
    assert one["sws"].claimable
    assert one["sws"].summary.mean < 0
    assert "both ways of distilling are significantly below scratch with the same total compute" in text
    for start in ("logits", "distilled"):
        assert all(found[start].claimable and found[start].summary.mean < 0 for found in (one, four))
    assert "WAVE's templates are below scratch**, significantly after one epoch" in text
    assert one["wave"].claimable
    assert max(one["wave"].summary.mean, four["wave"].summary.mean) < 0
    own = {"even_layers", "structured_pruning", "weight_selection", "weight_subcloning"}
    best = {
        best_within(curves, (task, size), flops).start
        for task in arena.tasks
        for size in arena.sizes
        for flops in (*(point.flops.total for point in curves["random"][task, size]), float("inf"))
    }
    assert best <= own
