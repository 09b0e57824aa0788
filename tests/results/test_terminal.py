"""Tables are readable in a terminal of any width."""

import re

import pytest
from rich.cells import cell_len

from lgx.results.tables import Cell, Table
from lgx.results.terminal import folded
from tests.results.helpers import DEPTHS, add_run
from tests.support.command_line import lgx

LONG = "depth={},embed_dim=64,num_heads=4,mlp_ratio=2,patch_size=4,img_size=32"
WIDTHS = (60, 80, 200)


@pytest.fixture
def runs(tmp_path):
    for method in ("weight_selection", "sws", "random"):
        for depth in (*DEPTHS, 10, 12):
            for seed in (0, 1):
                add_run(tmp_path / f"{method}{depth}/seed{seed}", method, depth, seed, architecture=LONG)
    return tmp_path


@pytest.mark.parametrize("width", WIDTHS)
def test_a_comparison_fits_the_terminal_and_cuts_no_word(runs, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    done = lgx("compare", runs)
    assert done.code == 0, done.err
    assert max(map(cell_len, done.out.splitlines())) <= width
    assert "…" not in done.out
    for part in ("img_size=32", "depth=12", "weight_selection"):
        assert part in done.out
    assert "± 6.35 (2)" in done.out


def test_a_divided_table_repeats_title_and_names(runs, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    out = lgx("compare", runs).out
    parts = int(re.findall(r"pocket, untrained \(part\s1\sof\s(\d)\)", out)[0])
    assert parts > 1
    assert out.count("pocket, untrained (part") == parts
    assert out.count("│ weight_selection ") == 2 * parts  # untrained, and after 5 epochs
    assert out.count("all with embed_dim=64") == 2


def test_heads_are_folded_before_a_table_is_divided():
    from lgx.results.terminal import to_rich

    head = "depth=3,mlp_ratio=2,stages=2-1"
    table = Table(
        "title", (head, head.replace("3", "4"), head.replace("3", "5")), (("sws", (Cell("1"),) * 3),), "below"
    )
    assert len(to_rich(table, 70)) == len(to_rich(table, 200)) == 3  # title, one table, the sentence below it


def test_a_text_is_folded_behind_commas_and_at_spaces():
    assert folded("depth=4,embed_dim=64 and more", 14) == "depth=4,\nembed_dim=64\nand more"
    assert folded("a" * 20, 5) == "a" * 20


@pytest.mark.parametrize("width", WIDTHS)
def test_arch_fits_the_terminal_and_shows_what_differs(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    specs = [f"depth={depth},embed_dim=16,num_heads=2,patch_size=4,img_size=16" for depth in (4, 6)]
    done = lgx("arch", *specs)
    assert max(map(cell_len, done.out.splitlines())) <= width
    assert re.search(r"│ depth=6 +│ +37\.78 k │ 397\.12 k │", done.out)
    assert "all with embed_dim=16,num_heads=2,patch_size=4,img_size=16" in done.out
    mixed = lgx("arch", specs[0], "Aux-B", "6-Small").out
    assert max(map(cell_len, mixed.splitlines())) <= width
    assert "…" not in mixed
    for word in ("img_size=16", "31.22 k", "274.18 k", "36.95 M", "23.38 G", "3-3-4-3-3"):
        assert word in mixed
