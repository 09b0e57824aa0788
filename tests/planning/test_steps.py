"""Predicted steps are those of a run."""

import json

import pytest

from lgx.errors import UserError
from lgx.results.run_records import RunRecord
from tests.planning.helpers import BASE, LOW_RANK, plan, run_folder, steps_of
from tests.support.command_line import arguments, lgx, ok, python


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("Ancestor", ["--trainer.accumulate_grad_batches=2", "--trainer.max_epochs=2"]),
        ("Ancestor", ["--trainer.max_epochs=9", "--trainer.max_steps=4"]),
        pytest.param("Finetune", ["--data.limit_train=40", "--trainer.max_epochs=2"], marks=pytest.mark.slow),
        ("Finetune", ["--trainer.limit_train_batches=0.7", "--trainer.max_epochs=2"]),
    ],
)
def test_predicted_steps_are_those_of_a_run(fit, images, tmp_path, model, options):
    ok(fit(model, "--name=run", *options))
    summary = json.loads((run_folder(tmp_path / "runs", "run") / "summary.json").read_text())
    planned = plan(*arguments("fit", model, images, tmp_path / "other", *options)[1:])
    assert planned.steps.total == summary["steps"]
    assert planned.steps.epochs == pytest.approx(summary["epochs"], abs=1)


def test_predicted_steps_of_several_tasks_are_those_of_a_run(images, tmp_path):
    options = [
        "--data=MultiTask", f"--data.tasks=[{images}]", "--model.set_size=4", *LOW_RANK,
        "--trainer.accumulate_grad_batches=2", "--trainer.max_epochs=2", "--name=run",
    ]  # fmt: skip
    args = [a for a in arguments("fit", "LoGAH", images, tmp_path / "runs", *options) if "data.root" not in str(a)]
    ok(lgx(*args))
    summary = json.loads((run_folder(tmp_path / "runs", "run") / "summary.json").read_text())
    assert steps_of(*args[1:]).total == summary["steps"] == 4


@pytest.mark.parametrize("processes", [1, 2, 4, 8, 32])
def test_a_batch_that_is_split_stays_that_of_the_recipe(images, tmp_path, processes):
    args = arguments("fit", "Ancestor", images, tmp_path, "--data.batch_size=32", "--split_batch")[1:]
    steps = plan(*args, f"--gpus={processes}").steps
    assert (steps.batch, steps.effective_batch, steps.total) == (32 // processes, 32, steps_of(*args).total)


def test_a_batch_that_cannot_be_split_is_refused_with_the_numbers(images, tmp_path):
    args = arguments("fit", "Ancestor", images, tmp_path, "--data.batch_size=32", "--split_batch")[1:]
    with pytest.raises(UserError, match=r"5 processes .* 32 examples"):
        plan(*args, "--gpus=5")


@pytest.mark.slow
@pytest.mark.parametrize("batch", [["--data.batch_size=5"], ["--data.batch_size=10", "--split_batch"]])
def test_two_processes_share_the_steps_of_an_epoch(images, tmp_path, batch):
    args = arguments(
        "fit", "Ancestor", images, tmp_path / "runs", "--name=run", *batch, "--trainer.max_epochs=2",
        "--trainer.accumulate_grad_batches=3", "--trainer.devices=2", "--trainer.strategy=ddp",
    )  # fmt: skip
    done = python("-m", "lgx", *args, timeout=150)
    assert done.returncode == 0, done.stderr[-3000:]
    summary = json.loads((run_folder(tmp_path / "runs", "run") / "summary.json").read_text())
    steps = plan(*args[1:]).steps
    assert (steps.total, steps.processes) == (summary["steps"], summary["processes"]) == (4, 2)
    assert steps.effective_batch == 30
    assert RunRecord.at(run_folder(tmp_path / "runs", "run")).images == 4 * 30
    assert steps.samples == 2 * 40  # four batches an epoch: three in one step and one in the next


def test_gpus_and_nodes_multiply(tmp_path):
    steps = plan(*BASE, "--gpus=8", "--nodes=4", "--trainer.max_epochs=3", "--trainer.accumulate_grad_batches=2").steps
    assert steps.effective_batch == 64 * 2 * 32
    assert steps.batches_per_epoch == 45_000 // (64 * 32)
    assert steps.total == 3 * steps.per_epoch == 3 * 11
