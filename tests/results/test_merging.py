"""Rows of runs are found and merged; one for each measurement, at the start and the end of training."""

import os
from dataclasses import replace

import pytest

from experiments.reproduce.claims import Claim
from experiments.reproduce.verdicts import judge
from lgx.commands.compare import compare
from lgx.core.rows import write_rows
from lgx.errors import UserError
from lgx.results.compute import random_start
from lgx.results.merging import count_whole_runs, find_results, last_epochs, merge
from tests.results.helpers import row


def test_random_starts_are_recognized_by_their_initializer():
    names = ("sws", "mimetic", "ancestor", "mine")
    assert (random_start(names), random_start([*names, "trained"]), random_start(["random"])) == (
        None,
        "trained",
        "random",
    )


def test_results_are_found_at_any_depth_and_once(runs):
    assert len(find_results([str(runs)])) == 27
    assert len(find_results([str(runs), str(runs / "sws"), str(runs / "sws/4/0/results.csv")])) == 27


def test_the_newest_of_two_files_of_one_run_is_used_and_reported(tmp_path):
    own = tmp_path / "runs/a/results.csv"
    for file, value, time in ((tmp_path / "measured.csv", 0.1, 1_000_000), (own, 0.9, 2_000_000)):
        write_rows(file, [row(value=value), *([row(run="runs/b")] if file != own else [])])
        os.utime(file, (time, time))
    merged = merge([tmp_path / "measured.csv", own])
    assert {row.run: row.value for row in merged.rows} == {"runs/a": 0.9, "runs/b": 0.5}
    assert f"from {own}, not {tmp_path}/measured.csv" in merged.notes[0]


def test_two_runs_of_one_name_are_shown_by_their_folders_and_a_copy_is_not(tmp_path, capsys):
    for project, value in (("one", 0.5), ("other", 0.7), ("copy", 0.7)):
        for seed in (0, 1):
            run = f"runs/mine/first/seed{seed}"
            write_rows(tmp_path / project / run / "results.csv", [row(value=value + seed / 100, seed=seed, run=run)])
    compare([str(tmp_path / "one"), str(tmp_path / "other")])
    shown = capsys.readouterr().out
    assert "sws (one/runs/mine/first)" in shown
    assert "sws (other/runs/mine/first)" in shown
    assert "70.50 ± 6.35 (2)" in shown
    compare([str(tmp_path / "copy"), str(tmp_path / "other")])
    shown = capsys.readouterr().out
    assert "first" not in shown
    assert "70.50 ± 6.35 (2)" in shown


def test_runs_of_one_method_that_measured_the_same_are_shown_by_their_names(tmp_path, capsys):
    for name, value in (("low_rate", 0.5), ("high_rate", 0.6)):
        for seed in (0, 1):
            run = f"runs/mine/{name}/seed{seed}"
            write_rows(tmp_path / run / "results.csv", [row(value=value + seed / 100, seed=seed, run=run)])
    compare([str(tmp_path)])
    shown = capsys.readouterr().out
    assert "sws (mine/low_rate)" in shown
    assert "sws (mine/high_rate)" in shown
    assert "60.50 ± 6.35 (2)" in shown


def test_tables_contain_the_start_and_the_last_epoch_of_each_run():
    rows = [row(epochs=epochs, split="val") for epochs in (0, 1, 2, 3)] + [row(epochs=1, run="runs/short", seed=1)]
    kept, notes = last_epochs(rows)
    assert [(row.epochs, row.run) for row in kept] == [(0, "runs/a"), (3, "runs/a"), (1, "runs/short")]
    assert notes == ["2 value(s) from the middle of training are not in the tables."]


def test_tests_of_best_checkpoints_count_as_their_runs(tmp_path, capsys):
    best = {("sws", 0): 7, ("sws", 1): 8, ("random", 0): 9, ("random", 1): 10}
    for (method, seed), epochs in best.items():
        own = {"method": method, "seed": seed, "run": f"runs/{method}/seed{seed}"}
        rows = [row(split="val", value=0.1, **{**own, "epochs": k}) for k in range(1, 11)]
        rows.append(row(value=0.5 + seed / 10 + (method == "sws") / (5 + seed), **{**own, "epochs": epochs}))
        write_rows(tmp_path / method / str(seed) / "results.csv", rows)
    compare([str(tmp_path)], baseline="random")
    shown = " ".join(capsys.readouterr().out.split())
    assert "3 value(s) were measured on a checkpoint before the end of its run" in shown
    assert "(2)" in shown
    assert "p = " in shown


def test_epochs_of_a_papers_table_are_kept():
    kept = [row(epochs=5), row(epochs=7, seed=1)]
    rows, notes = count_whole_runs(kept, [row(epochs=9), row(epochs=9, seed=1)], also=(5,))
    assert rows == [row(epochs=5), row(epochs=9, seed=1)]
    assert notes == ["1 value(s) were measured on a checkpoint before the end of its run, for example the best one."]


def test_two_values_of_one_measurement_are_not_judged():
    own = [row(method, value=value, seed=seed) for method in ("tal", "logah") for seed, value in enumerate((0.5, 0.6))]
    again = replace(own[0], run="runs/b")
    assert judge(Claim("tal", "logah"), [*own, again]) == judge(Claim("tal", "logah"), own)
    with pytest.raises(UserError, match="tal has two values of acc on pocket, 6-Small, untrained, seed 0; give one an"):
        judge(Claim("tal", "logah"), [*own, replace(again, value=0.51)])
