"""Comparisons beside a table of a paper: its numbers behind the measured ones, its averages, its hours."""

from pathlib import Path

import pytest

from experiments.reproduce.beside import compare_beside, hours_beside
from experiments.reproduce.paper import load_table
from lgx.core.rows import Row, write_rows
from lgx.errors import UserError
from lgx.results.comparison import Options
from lgx.results.cost import MethodCost, cost_section
from lgx.results.run_records import Work
from tests.results.helpers import row
from tests.support.command_line import ok, reproduce


def shown(folder: Path, rows: list[Row], numbers: str, options: Options) -> str:
    write_rows(folder / "results.csv", rows)
    return compare_beside([folder / "results.csv"], options, numbers)[0].to_markdown()


def test_training_losses_are_shown_beside_those_of_the_rebuttal(tmp_path: Path) -> None:
    rows = [
        row(method, "12-Small", factor * (4 + seed) / epoch, task="decathlon_ucf101", split="train", metric="loss",
            epochs=epoch, seed=seed, run=f"{method}/{seed}")
        for seed in (0, 1) for method, factor in (("tal", 1.0), ("random", 3.0)) for epoch in range(1, 31)
    ]  # fmt: skip
    text = shown(tmp_path, rows, "tal/rebuttal_convergence", Options("loss", "train"))
    assert "0.4500 ± 0.6353 (2), paper 8.4604" in text  # epoch 10: 0.4 and 0.5
    assert "1.3500 ± 1.9059 (2), paper 59.9801" in text
    assert "paper 3.1283" in text  # epoch 30, the last
    assert "after 15 epochs" not in text


def test_the_papers_number_is_shown_for_the_same_architecture(tmp_path: Path) -> None:
    rows = [row("sws", "12-Base", 0.785, task="imagenet"), row("sws", "6-Small", 0.5, task="imagenet")]
    text = shown(tmp_path, rows, "sws/table1", Options())
    assert "78.50 (1), paper 79.3" in text
    assert "1 of 2 cells" in text
    assert "50.00 (1), paper" not in text
    assert "scales differ" not in text


def test_runs_are_shown_beside_any_table_of_the_papers(runs: Path, tmp_path: Path) -> None:
    for table in ("sws/table3", "tal/rebuttal_cifar100"):  # the index has no entry for the second one
        ok(reproduce(table, "--scale", "paper", "--runs", runs, "--out", tmp_path / "out"))
        text = (tmp_path / "out/report.html").read_text()
        assert "23.00 ± 2.48 (3)" in text
        assert "the scales differ" in text
        assert f"paper {table}: " in text


def test_the_papers_hours_stand_behind_the_measured_ones() -> None:
    cost = cost_section([MethodCost(name, 1, 1, 0, 22_000_000, Work(), Work()) for name in ("tal", "sws")])
    table = hours_beside(cost, load_table("tal/table4")).tables[-1]
    assert (table.columns[-1], [(name, cells[-1].text) for name, cells in table.rows]) == (
        "paper's hours", [("sws", "–"), ("tal", "36.19")],
    )  # fmt: skip
    assert hours_beside(cost, load_table("sws/table1")) is cost


@pytest.mark.parametrize(
    ("numbers", "options", "message"),
    [
        ("sws/table9", Options(), "no table 'sws/table9'; known are tal/table1, "),
        ("tal/table4", Options(), "tal/table4 has no acc of the test split"),
        ("tal/rebuttal_convergence", Options(), "has no acc of the test split"),
        ("sws/table1", Options("loss", "train"), "sws/table1 has no loss of the train split"),
    ],
)
def test_a_table_without_the_metric_is_refused(tmp_path: Path, numbers: str, options: Options, message: str) -> None:
    with pytest.raises(UserError, match=message):
        shown(tmp_path, [row()], numbers, options)
