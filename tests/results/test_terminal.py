"""Tables are readable in a terminal of any width."""

import pytest
from rich.cells import cell_len

from lgx.results.markdown import to_markdown
from lgx.results.report import Cell, Table
from lgx.results.terminal import print_markdown
from tests.results.helpers import DEPTHS, add_run
from tests.support.command_line import lgx, ok

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
def test_a_comparison_fits_the_terminal_and_cuts_no_number(runs, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    done = ok(lgx("compare", runs))
    assert max(map(cell_len, done.out.splitlines())) <= width
    assert "…" not in done.out
    for part in ("depth=12", "± 6.35 (2)"):
        assert part in done.out
    parts = 1 if width == 200 else done.out.count("│ weight_selection ") // 2  # untrained, and after 5 epochs
    assert (parts > 1) == (width < 200)


def test_heads_are_folded_before_a_table_is_divided(monkeypatch, capsys):
    head = "depth=3,mlp_ratio=2,stages=2-1"
    heads = (head, head.replace("3", "4"), head.replace("3", "5"))
    for width in (70, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        print_markdown(to_markdown(Table("title", heads, (("sws", (Cell("1"),) * 3),), "below")))
        assert capsys.readouterr().out.count("┏") == 1


def test_a_text_in_a_table_is_folded_and_not_divided(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    print_markdown(f"| a | text | n |\n| --- | --- | ---: |\n| b | {'word ' * 20} | 12.5 |")
    shown = capsys.readouterr().out
    assert shown.count("┏") == 1
    assert "│ 12.5 │" in shown
