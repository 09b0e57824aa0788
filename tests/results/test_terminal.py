"""Tables keep their numbers whole in a terminal of any width."""

import pytest
from rich.cells import cell_len

from tests.results.helpers import DEPTHS, add_run
from tests.support.command_line import lgx, ok

LONG = "depth={},embed_dim=64,num_heads=4,mlp_ratio=2,patch_size=4,img_size=32"


@pytest.fixture
def runs(tmp_path):
    for method in ("weight_selection", "sws", "random"):
        for depth in (*DEPTHS, 10, 12):
            for seed in (0, 1):
                add_run(tmp_path / f"{method}{depth}/seed{seed}", method, depth, seed, architecture=LONG)
    return tmp_path


@pytest.mark.parametrize("width", [60, 200])
def test_the_tables_of_a_comparison_are_whole_and_its_sentences_fit_the_terminal(runs, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    lines = ok(lgx("compare", runs)).out.splitlines()
    tables = [line for line in lines if line[:1] in "┏┃┡│└"]
    assert max(map(cell_len, {*lines} - {*tables})) <= width
    rows = [line for line in tables if line.startswith("│ weight_selection")]
    assert [row.count("± 6.35 (2)") for row in rows] == [len((*DEPTHS, 10, 12))] * 2
    assert "…" not in "".join(lines)
