"""Averages over what methods share, and the result in words."""

import os
from dataclasses import replace
from math import nan

import pytest

from experiments.reproduce.claims import Claim
from experiments.reproduce.verdicts import judge
from lgx.commands.compare import compare
from lgx.core.rows import Row, write_rows
from lgx.errors import UserError
from lgx.results.merging import count_whole_runs, find_results, last_epochs, merge
from lgx.results.standings import average_section, random_start, standings
from tests.results.helpers import row

TASKS = ("pocket", "other")


def rows_of(method: str, values: dict[int, float], **changes: object) -> list[Row]:
    return [row(method, value=value, seed=seed, **changes) for seed, value in values.items()]


def headlines(rows: list[Row], metric: str = "acc", baseline: str | None = None) -> list[str]:
    return [standing.headline for standing in standings(rows, metric, baseline)[::-1]]


def test_the_result_names_the_best_method_its_lead_and_the_number_of_seeds():
    rows = rows_of("random", {0: 0.30, 1: 0.32}) + rows_of("sws", {0: 0.50, 1: 0.53})
    (sentence,) = headlines(rows)
    assert sentence.startswith("Untrained, sws has the best mean accuracy (%), 51.50 ± 19.06 (2): +20.50 ± 6.35 (2)")
    assert sentence.endswith(" against random (significant), over 1 task × 1 network.")


@pytest.mark.parametrize(
    ("other", "values", "random", "words"),
    [
        ("sws", (0.5, 0.41), (0.3, 0.4), ("sws has the best mean accuracy (%), 45.50", "(not significant)")),
        ("tleg", (0.4, 0.421), (0.5, 0.52), ("random has the best mean", "+9.95 ± 0.64 (2) against tleg (sig")),
        ("tleg", (0.4, 0.42), (0.5, 0.52), ("random has the best mean", "(not significant)")),
    ],
    ids=["no significant lead", "the reference is best", "equal leads of all seeds"],
)
def test_the_result_of_two_methods_says_which_is_better_if_that_can_be_said(other, values, random, words):
    rows = rows_of("random", dict(enumerate(random))) + rows_of(other, dict(enumerate(values)))
    assert all(word in headlines(rows)[0] for word in words)


def test_values_that_are_not_finite_take_no_place():
    rows = rows_of("tleg", {0: nan, 1: nan}) + rows_of("sws", {0: 0.9, 1: 0.92}) + rows_of("random", {0: 0.7, 1: 0.71})
    assert "sws has the best mean accuracy (%), 91.00 ± 12.71 (2): +20.50 ± 6.35 (2)" in headlines(rows)[0]


def test_one_seed_allows_no_claim():
    (sentence,) = headlines(rows_of("random", {0: 0.1}) + rows_of("sws", {0: 0.9}))
    assert "one seed supports no claim" in sentence
    assert "±" not in sentence


def test_without_a_random_start_the_second_best_is_the_reference_and_a_named_baseline_replaces_both():
    rows = rows_of("sws", {0: 0.5, 1: 0.52}) + rows_of("tleg", {0: 0.4, 1: 0.421}) + rows_of("tal", {0: 0.3, 1: 0.321})
    assert "+9.95 ± 0.64 (2) against tleg" in headlines(rows)[0]
    assert "+19.95 ± 0.64 (2) against tal" in headlines(rows, baseline="tal")[0]


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_a_tie_over_two_tasks_is_one_though_its_means_differ_in_the_last_bit(seeds):
    values = {"tal": (0.1, 0.7), "random": (0.3, 0.5)}  # 0.4 and 0.39999999999999997
    rows = [
        row for method, of_task in values.items() for task, value in zip(TASKS, of_task, strict=True)
        for row in rows_of(method, dict.fromkeys(range(seeds), value), task=task)
    ]  # fmt: skip
    (standing,) = standings(rows, "acc")
    assert "+0.00" in headlines(rows)[0]
    section = average_section([standing])
    assert [cells[0].best for _, cells in section.tables[0].rows] == [True, True]


def test_a_single_method_is_not_compared_and_has_no_table_of_averages():
    found = standings(rows_of("sws", {0: 0.5, 1: 0.6}), "acc")
    assert found[0].headline.endswith("(2), over 1 task × 1 network.")
    assert average_section(found) is None


def test_of_losses_the_smallest_is_best():
    rows = rows_of("random", {0: 3.0, 1: 3.2}, metric="loss") + rows_of("sws", {0: 1.0, 1: 1.21}, metric="loss")
    (sentence,) = headlines(rows, "loss")
    assert sentence.startswith("Untrained, sws has the best mean loss, 1.1050 ± 1.3342 (2): -1.9950 ± 0.0635 (2)")


def test_the_most_trained_networks_come_first_and_at_most_three_sentences(tmp_path, capsys):
    every = [r for n in (0, 1, 2, 5) for m in ("random", "sws") for r in rows_of(m, {0: 0.5}, epochs=n, run=f"{m}{n}")]
    write_rows(tmp_path / "results.csv", every)
    compare([str(tmp_path)])
    shown = capsys.readouterr().out
    first = [line.split(",")[0] for line in shown.splitlines() if "has the best mean" in line]
    assert first == ["After 5 epochs", "After 2 epochs", "After 1 epoch"]


def test_averages_are_over_what_most_methods_share():
    """Three methods have two tasks; one has a third task, one lacks a task, and one seed of a method is incomplete."""
    rows = [
        r
        for method in ("random", "sws", "tleg")
        for task in ("pocket", "other")
        for r in rows_of(method, {0: 0.2, 1: 0.4}, task=task)
    ]
    rows += rows_of("sws", {0: 0.9, 1: 0.9}, task="third") + rows_of("tal", {0: 0.9, 1: 0.9}, task="pocket")
    rows += rows_of("random", {2: 0.9}, task="pocket")
    (standing,) = standings(rows, "acc")
    assert standing.places == (("other", "6-Small"), ("pocket", "6-Small"))
    assert set(standing.values) == {"random", "sws", "tleg"}
    assert standing.values["random"] == pytest.approx({0: 20.0, 1: 40.0})
    assert standing.place == "2 tasks × 1 network"


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
