"""A tuning study runs trials, keeps their scores, and prints the best options."""

import pytest
import yaml

from lgx.core.rows import Row, write_rows
from lgx.errors import UserError
from lgx.host.locks import locked
from lgx.runs.executors import Failure
from lgx.runs.jobs import mark_finished
from lgx.runs.pool import Pool
from lgx.runs.progress import Progress
from lgx.runs.study import open_study, run_trials
from lgx.runs.tuning import load_tuning, score
from tests.support.command_line import lgx
from tests.support.fake_executor import FakeExecutor
from tests.support.sweeps import config_of

RATE = "model.optimizer.init_args.lr"


@pytest.fixture
def tuning_file(images, tmp_path):
    """``tuning_file(trials=3)``: the tuning file below with other values; None removes a key."""
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config_of("Ancestor", images)))

    def write(**change):
        content = {
            "experiment": "t", "config": "c.yaml", "metric": "val/acc", "direction": "maximize", "trials": 8,
            "space": {RATE: {"low": 1e-5, "high": 1e-1, "log": True}, "model.stages": [[2, 2], [1, 3]]},
            **change,
        }  # fmt: skip
        path = tmp_path / "tuning.yaml"
        path.write_text(yaml.safe_dump({key: value for key, value in content.items() if value is not None}))
        return path

    return write


def measure(job, value, split="val", epochs=1, task="t"):
    return Row("m", "a", task, split, epochs, "acc", value, 0, 10, job if isinstance(job, str) else job.folder)


def play(job):
    """A run that scores best at a rate of 0.01."""
    rate = float(next(a for a in job.arguments if a.startswith(f"--{RATE}=")).split("=")[1])
    write_rows(f"{job.folder}/results.csv", [measure(job, 1 / (1 + abs(rate - 0.01)))])
    mark_finished(job)
    return "finished"


def rehearse(tuning, play=play, limit=1):
    study, executor = open_study(tuning), FakeExecutor(limit, play)
    run_trials(tuning, study, Pool(executor, Progress(tuning.trials)))
    return study.trials, executor


@pytest.mark.slow
def test_the_better_of_two_learning_rates_is_found(tuning_file, tmp_path):
    """Real runs: one rate learns the shapes, the other is too small to learn."""
    options = {"trainer.max_epochs": 6}
    file = tuning_file(space={RATE: ["1.0e-9", "0.01"]}, options=options, trials=2, seed=2)
    command = ["tune", file, "--runs_dir", tmp_path / "runs", "--parallel", 2]
    found = lgx(*command)
    assert found.code == 0, found.err
    best = next(line for line in found.out.splitlines() if line.startswith("best"))
    assert best == (
        f"best       lgx fit --config {tmp_path}/c.yaml --runs_dir {tmp_path}/runs --experiment t --name best "
        f"--seed_everything 2 --trainer.max_epochs=6 --{RATE}=0.01"
    )
    assert (tmp_path / "runs/t/trial0/seed2/checkpoints/best.ckpt").exists()
    assert "Seed set to 2" in (tmp_path / "runs/t/jobs/trial1/seed2.log").read_text()
    again = lgx(*command)
    assert "0 of 2 trials to do" in again.out
    assert best in again.out


def test_an_interrupted_study_draws_the_same_trials(tuning_file, tmp_path):
    whole, _ = rehearse(load_tuning(tuning_file(), str(tmp_path / "whole")))
    assert len({trial.params[RATE] for trial in whole}) == len(whole) == 8
    tuning = load_tuning(tuning_file(), str(tmp_path / "runs"))

    def stop(job):
        if job.name == "trial3":
            raise RuntimeError("killed")
        return play(job)

    with pytest.raises(RuntimeError, match="killed"):
        rehearse(tuning, stop)
    trials, executor = rehearse(tuning)
    assert [name for what, name in executor.events if what == "start"] == [f"trial{k}" for k in range(3, 8)]
    assert [(t.params, t.value) for t in trials] == [(t.params, t.value) for t in whole]


def test_a_trial_that_finished_after_the_command_ended_is_not_repeated(tuning_file, tmp_path):
    tuning = load_tuning(tuning_file(trials=2), str(tmp_path / "runs"))

    def stop(job):
        play(job)
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        rehearse(tuning, stop)
    trials, executor = rehearse(tuning)
    assert [name for what, name in executor.events if what == "start"] == ["trial1"]
    assert all(trial.value for trial in trials)


def test_a_failed_trial_does_not_stop_the_study(tuning_file, tmp_path, capsys):
    tuning = load_tuning(tuning_file(trials=4), str(tmp_path / "runs"))
    trials, executor = rehearse(tuning, lambda w: Failure("no space", "x") if w.name == "trial1" else play(w), limit=3)
    assert executor.most == 3
    assert [trial.value is None for trial in trials] == [False, True, False, False]
    assert "failed     trial1: no space; log x" in capsys.readouterr().out
    shown = lgx("tune", tuning_file(trials=4), "--runs_dir", tmp_path / "runs")
    assert shown.code == 0, shown.err
    assert "3 trials; 1 failed" in shown.out
    rehearse(load_tuning(tuning_file(trials=2), str(tmp_path / "none")), lambda job: Failure("no space", "x"))
    result = lgx("tune", tuning_file(trials=2), "--runs_dir", tmp_path / "none")
    assert (result.code, "all 2 trials failed" in result.sentence) == (2, True)


def test_every_draw_lies_in_its_space_and_reaches_the_command_line(tuning_file, tmp_path):
    space = {"a": {"low": 2, "high": 8, "step": 2}, "b": {"low": 0.0, "high": 1.0, "step": 0.25}, "c": [None, True]}
    space[RATE] = {"low": "1e-4", "high": "1e-2", "log": True}  # a text for YAML: it has no point
    tuning = load_tuning(tuning_file(space=space, direction="minimize"), str(tmp_path / "runs"))
    seen = []

    def note(job):
        seen.append(job.arguments)
        write_rows(f"{job.folder}/results.csv", [measure(job, 0.5)])
        return "finished"

    trials, _ = rehearse(tuning, note)
    for trial, arguments in zip(trials, seen, strict=True):
        assert trial.params["a"] in (2, 4, 6, 8)
        assert trial.params["b"] in (0, 0.25, 0.5, 0.75, 1)
        assert 1e-4 <= trial.params[RATE] <= 1e-2
        assert f"--a={trial.params['a']}" in arguments
        assert f"--c={'null' if trial.params['c'] is None else 'true'}" in arguments
        assert {"--test_end=false", "--test_start=false"} <= set(arguments)


def test_the_score_is_the_best_epoch_of_the_validation_split(tuning_file, tmp_path):
    tuning = load_tuning(tuning_file())
    run = str(tmp_path / "run")
    epochs = [measure(run, value, epochs=epoch) for epoch, value in ((1, 0.2), (2, 0.6), (3, float("nan")))]
    other = [measure(run, value, epochs=epoch, task="u") for epoch, value in ((1, 0.2), (2, 0.2))]
    write_rows(f"{run}/results.csv", [*epochs, *other, measure(run, 1.0, split="test"), measure(run, 1.0, "train")])
    assert score(run, tuning) == pytest.approx(0.4)
    assert score(run, load_tuning(tuning_file(direction="minimize"))) == pytest.approx(0.2)
    with pytest.raises(UserError, match="has no val/f1; it has val/acc"):
        score(run, load_tuning(tuning_file(metric="val/f1")))
    write_rows(f"{run}/results.csv", [measure(run, float("nan"))])
    with pytest.raises(UserError, match="not finite"):
        score(run, tuning)


def test_a_journal_of_another_study_is_refused(tuning_file, tmp_path):
    rehearse(load_tuning(tuning_file(trials=1), str(tmp_path / "runs")))
    with pytest.raises(UserError, match="holds a study with another space and seed"):
        open_study(load_tuning(tuning_file(space={"x": [1, 2]}, seed=3), str(tmp_path / "runs")))
    assert len(rehearse(load_tuning(tuning_file(trials=2), str(tmp_path / "runs")))[0]) == 2


def test_a_journal_with_an_incomplete_last_line_continues(tuning_file, tmp_path):
    tuning = load_tuning(tuning_file(trials=2), str(tmp_path / "runs"))
    rehearse(tuning)
    journal = tmp_path / "runs/t/study.journal"
    whole = journal.read_bytes()
    journal.write_bytes(whole[: whole.rfind(b"\n", 0, -1) + 20])  # only a part of the last trial's score
    trials, executor = rehearse(tuning)
    assert executor.events == []
    assert [trial.value is not None for trial in trials] == [True, True]


def test_two_commands_cannot_run_one_study(tuning_file, tmp_path):
    with locked(tmp_path / "runs/t/study"):
        result = lgx("tune", tuning_file(), "--runs_dir", tmp_path / "runs")
    assert "another `lgx tune` runs this study" in result.sentence


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metric": None}, "metric is missing, expected val/"),
        ({"trails": 3}, "unknown key trails; the keys are experiment, config"),
        ({"metric": "test/acc"}, "metric is 'test/acc', expected val/ followed by a metric"),
        ({"seed": 2**32}, "seed is 4294967296, expected a whole number, 0 to 4,294,967,295"),
        ({"experiment": "../evil"}, "experiment: '../evil' is no name of a folder below another one"),
        ({"config": "no.yaml"}, "no.yaml does not exist"),
        ({"space": {}}, "space is {}, expected a mapping from option"),
        ({"space": {"x": 3}}, "space.x: no choices and no range"),
        ({"space": {"x": []}}, "space.x: no choices and no range"),
        ({"space": {"x": {"low": 1}}}, "required positional argument: 'high'); give a list of choices, or low"),
        ({"space": {"x": {"low": 2, "high": 1}}}, "space.x: no choices and no range"),
        ({"space": {"x": {"low": 0, "high": 1, "log": True}}}, "space.x: no choices and no range"),
        ({"space": {"x": {"low": "a", "high": 1}}}, "could not convert string to float: 'a'"),
        ({"space": {"name": ["a", "b"]}}, "name is set by lgx tune itself"),
        ({"options": {RATE: 1}}, "is in space and in options"),
    ],
)
def test_a_malformed_tuning_file_is_explained(tuning_file, change, words):
    result = lgx("tune", tuning_file(**change))
    assert result.code == 2
    assert words in result.sentence


def test_wrong_options_are_explained(tuning_file, tmp_path):
    assert "parallel: expected a whole number of at least 1" in lgx("tune", tuning_file(), "--parallel", 0).sentence
    assert "no such file" in lgx("tune", tmp_path / "no.yaml").sentence
