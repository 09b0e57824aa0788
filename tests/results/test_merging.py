"""Which rows of several runs are shown in a table."""

import os
from dataclasses import replace

import pytest

from experiments.reproduce.claims import Claim
from experiments.reproduce.verdicts import judge
from lgx.commands.compare import compare
from lgx.core.rows import write_rows
from lgx.errors import UserError
from lgx.results.merging import count_whole_runs, find_results, last_epochs, merge
from tests.results.helpers import row


def test_results_are_found_at_any_depth_and_once(runs):
    assert len(find_results([str(runs)])) == 27
    assert len(find_results([str(runs), str(runs / "sws"), str(runs / "sws/4/0/results.csv")])) == 27


def test_the_newest_of_two_runs_is_used_and_reported(tmp_path):
    for name, value, time in (("new", 0.9, 2_000_000), ("old", 0.1, 1_000_000)):
        file = tmp_path / name / "results.csv"
        write_rows(file, [row(value=value, run=f"runs/{name}")])
        os.utime(file, (time, time))
    merged = merge(find_results([str(tmp_path)]))
    assert [(row.value, row.run) for row in merged.rows] == [(0.9, "runs/new")]
    assert "1 value(s)" in merged.notes[0]
    assert "from runs/new, not runs/old" in merged.notes[0]


def test_tables_contain_the_start_and_the_last_epoch_of_each_run():
    rows = [row(epochs=epochs, split="val") for epochs in (0, 1, 2, 3)] + [row(epochs=1, run="runs/short", seed=1)]
    kept, notes = last_epochs(rows)
    assert [(row.epochs, row.run) for row in kept] == [(0, "runs/a"), (3, "runs/a"), (1, "runs/short")]
    assert notes == ["2 value(s) from the middle of training are left out of the tables."]


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


def test_a_note_names_the_files_of_two_runs_with_one_name(tmp_path):
    for project, value, time in (("a", 0.5, 1_000_000), ("b", 0.9, 2_000_000), ("copy of b", 0.9, 3_000_000)):
        file = tmp_path / project / "results.csv"
        write_rows(file, [row(value=value)])
        os.utime(file, (time, time))
    merged = merge(find_results([str(tmp_path)]))
    assert [row.value for row in merged.rows] == [0.9]
    assert f"from {tmp_path}/copy of b/results.csv, not {tmp_path}/a/results.csv" in merged.notes[0]


def test_two_values_of_one_measurement_are_not_judged():
    own = [row(method, value=value, seed=seed) for method in ("tal", "logah") for seed, value in enumerate((0.5, 0.6))]
    again = replace(own[0], run="runs/b")
    assert judge(Claim("tal", "logah"), [*own, again]) == judge(Claim("tal", "logah"), own)
    with pytest.raises(UserError, match="tal has two values of acc on pocket, 6-Small, untrained, seed 0; give one an"):
        judge(Claim("tal", "logah"), [*own, replace(again, value=0.51)])
