"""The arena's figures in the documentation follow from the committed rows."""

import re

import pytest

from lgx.arena.arena_file import load_arena
from lgx.arena.points import read_points
from lgx.arena.sections import sections_of
from lgx.arena.verdicts import setbacks
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
    (table,) = sections_of(arena, curves, {})[0].tables
    lines = to_markdown(table).splitlines()
    shown = [
        line for line in (ROOT / "README.md").read_text().splitlines() if re.match(r"\| (flowers12|dtd10), ", line)
    ]
    assert shown
    assert set(shown) <= set(lines)
