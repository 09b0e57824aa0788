"""Leads of TAL against the steps of its hypernetwork."""

import pytest

from experiments.analyze.__main__ import main
from experiments.analyze.length import in_words, leads_of, length_table, means_of
from lgx.core.rows import write_rows
from lgx.errors import UserError
from tests.results.helpers import row as some_row

OF_DESCENDANT = "runs/t/a-aligned-1600-tal/seed0"


def row(method, value, **changes):
    return some_row(method, "x", value, **{"task": "a", "run": f"runs/t/{method.split('_')[0]}-x/seed0", **changes})


ROWS = [
    *(row("random", 0.1, seed=seed, task=task) for seed in (0, 1) for task in "ab"),
    *(row("random", 0.5, seed=seed, task=task, epochs=5) for seed in (0, 1) for task in "ab"),
    *(row("tal_aligned_1600", value, seed=seed) for seed, value in enumerate((0.4, 0.5))),
    *(row("tal_aligned_1600", value, seed=seed, task="b") for seed, value in enumerate((0.6, 0.7))),
    *(row("logah_aligned_1600", 0.3, seed=seed, task=task) for seed in (0, 1) for task in "ab"),
    *(row("tal_aligned_6400", value, task=task) for task, value in (("a", 0.9), ("b", 0.7))),
    *(row("logah_aligned_6400", 0.2, task=task) for task in "ab"),
    row("tal_official_1600", 0.9),  # lacks a task
    *(
        row("tal_aligned_1600", value, task=task, epochs=5, run=OF_DESCENDANT)
        for task, value in (("a", 0.8), ("b", 0.6))
    ),
    row("tal_aligned_1600", 0.99, run=OF_DESCENDANT),  # untrained, in one size; the hypernetwork's run has all
    row("tal_aligned_1600", 0.99, task="never trained"),
]


def test_leads_are_means_over_tasks_paired_by_seed():
    untrained = leads_of(ROWS, False)
    assert in_words(untrained["aligned", 1600]).startswith("+25.0 ± ")
    assert {place: in_words(lead) for place, lead in leads_of(ROWS, True, "random").items()} == {
        ("aligned", 1600): "+20.0"
    }
    assert leads_of(ROWS, False, "random")["aligned", 6400].mean == pytest.approx(70)
    assert "| aligned, 1,600 | 2 | 55.0 | +25.0 ± " in length_table(ROWS)


def test_a_seed_whose_rows_are_not_all_there_yet_is_left_out():
    points, _ = means_of([*ROWS, row("tal_aligned_1600", 0.1, seed=2, task="a")])
    assert {key.steps: set(values) for key, values in points.items() if key.method == "tal" and not key.is_trained} == {
        1600: {0, 1}, 6400: {0},
    }  # fmt: skip


def test_rows_of_another_sweep_are_refused(tmp_path, capsys):
    with pytest.raises(UserError, match="no rows of experiments/tal/length"):
        means_of([row("tal", 0.5)])
    write_rows(tmp_path / "rows.csv", ROWS)
    main(["length", "--rows", str(tmp_path / "rows.csv"), "--out", str(tmp_path / "length.svg")])
    assert "+25.0" in capsys.readouterr().out
    assert "<svg" in (tmp_path / "length.svg").read_text()
