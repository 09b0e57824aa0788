"""The same run: what a run that is resumed must have in common with its beginning."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.core.rows import add_rows, read_rows
from tests.support.command_line import arguments, lgx, ok, refusal
from tests.support.images import write_images

RESUME = "--ckpt_path=last"
LONGER = "--trainer.max_epochs=2"


@pytest.fixture(scope="module")
def finished(images, tmp_path_factory):
    """A finished run of one epoch, in a folder that a test copies."""
    runs = tmp_path_factory.mktemp("finished")
    assert lgx(*arguments("fit", "Ancestor", images, runs, "--name=r")).code == 0
    return runs


@pytest.fixture
def run(finished, images, tmp_path):
    """Resume a copy of the finished run with further options."""
    shutil.copytree(finished, tmp_path / "runs")

    def resume(*options, root=images):
        return lgx(*arguments("fit", "Ancestor", root, tmp_path / "runs", "--name=r", *options))

    resume.folder = tmp_path / "runs/test/r/seed0"
    return resume


CHANGES = [
    ("--model.optimizer.lr=0.3", "model.optimizer.lr was 0.003, is 0.3"),
    ("--model.optimizer=torch.optim.SGD", "model.optimizer was AdamW, is SGD"),
    ("--model.label_smoothing=0.2", "model.label_smoothing was 0.0, is 0.2"),
    ("--trainer.accumulate_grad_batches=3", "trainer.accumulate_grad_batches was 1, is 3"),
    ("--trainer.precision=bf16-mixed", "trainer.precision was 32-true, is bf16-mixed"),
    ("--data.limit_train=32", "data.limit_train"),
    ("--trainer.callbacks+=EMAWeightAveraging", "trainer.callbacks.EMAWeightAveraging was null"),
    ("--data.batch_size=8", "data.batch_size x processes was 16, is 8"),
]


@pytest.mark.parametrize(("option", "sentence"), CHANGES, ids=[option for option, _ in CHANGES])
def test_a_change_of_what_the_run_learns_is_refused_by_name(run, option, sentence):
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    result = refusal(run(RESUME, LONGER, option))
    assert sentence in result
    assert "--overwrite" in result
    assert {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()} == before


def test_averaging_is_not_added_by_another_version(run, monkeypatch):
    monkeypatch.setattr("lgx.training.cli.commit", lambda: "another")
    assert "trainer.callbacks.EMAWeightAveraging was null" in refusal(
        run(RESUME, LONGER, "--trainer.callbacks+=EMAWeightAveraging")
    )


def test_every_checkpoint_names_the_data_and_the_batch(finished):
    for name in ("last.ckpt", "best.ckpt"):
        record = load_checkpoint(finished / "test/r/seed0/checkpoints" / name)["lgx_run"]
        assert record["data"]["data.batch_size x processes"] == "16"
        assert record["data"]["train split"].startswith("48 examples")


def test_other_data_are_refused_by_what_differs(run, tmp_path):
    twice = write_images(tmp_path / "shapes", {"train": 96, "val": 9, "test": 12})
    sentence = refusal(run(RESUME, LONGER, root=twice))
    assert "train split was 48 examples" in sentence
    assert "is 96 examples" in sentence


def test_other_weights_in_the_file_of_a_source_are_refused(fit, ancestor, tmp_path):
    source = shutil.copy(ancestor / "final.learngene.safetensors", tmp_path)
    start = ["--model.initializer=Pretrained", f"--model.initializer.source={source}", "--name=a"]
    assert fit("Finetune", *start).code == 0
    learngene = Learngene.load(source)
    replace(learngene, tensors={**learngene.tensors, "norm.bias": learngene.tensors["norm.bias"] + 1}).save(source)
    assert "the file of model.initializer.source was" in refusal(fit("Finetune", *start, RESUME, LONGER))


def test_a_finished_run_is_left_alone_and_a_longer_one_is_listed_also_with_its_data_elsewhere(run, images, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")}
    assert "finished" in ok(run(RESUME)).out
    assert {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")} == before
    moved = shutil.copytree(images, tmp_path / "elsewhere" / images.name)
    assert "resumed    trainer.max_epochs was 1, is 2" in ok(run(RESUME, LONGER, root=moved)).out
    assert {row.epochs for row in read_rows(run.folder / "results.csv")} == {1, 2}


def test_a_finished_run_whose_learngene_was_deleted_writes_it_again(run):
    file = run.folder / "final.learngene.safetensors"
    before = file.read_bytes()
    file.unlink()
    ok(run(RESUME))
    assert file.read_bytes() == before


def test_overwrite_replaces_a_run_that_cannot_be_resumed(run):
    ok(run(RESUME, "--overwrite", "--model.optimizer.lr=0.01"))
    assert "lr: 0.01" in (run.folder / "config.yaml").read_text()
    again = run(RESUME, "--overwrite", "--model.optimizer.lr=0.01")
    assert "finished" in again.out


DIVERGES = ["--name=d", "--trainer.max_epochs=2", "--model.optimizer.lr=1e30", "--trainer.log_every_n_steps=2"]


def test_a_run_that_diverges_ends_with_the_step_and_the_loss(fit, tmp_path):
    assert "step 2: not finite: train/loss" in refusal(fit("Ancestor", *DIVERGES))
    assert not (tmp_path / "runs/test/d/seed0/final.learngene.safetensors").exists()


def test_a_healthy_run_states_its_losses_and_gradient(finished):
    health = json.loads((finished / "test/r/seed0/summary.json").read_text())["health"]
    assert health["loss_at_start"] > 0
    assert health["loss_at_end"] > 0
    assert health["gradient_norm"] > 0


def test_the_default_precision_of_a_gpu_belongs_to_the_run(images, tmp_path, monkeypatch):
    def train(name, *options):
        return lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", f"--name={name}", *options))

    assert train("cpu").code == 0
    with monkeypatch.context() as patched:
        patched.setattr("lgx.training.cli._has_gpu", lambda accelerator: True)
        assert "trainer.precision was 32-true, is bf16-mixed" in train("cpu", RESUME, LONGER).sentence
        assert train("cpu", RESUME, LONGER, "--trainer.precision=32-true").code == 0
        assert train("gpu").code == 0
        folder = tmp_path / "runs/test/gpu/seed0"
        ok(lgx("fit", "--config", folder / "config.yaml", RESUME, LONGER, "--runs_dir", tmp_path / "runs"))
    assert "trainer.precision was bf16-mixed, is 32-true" in train("gpu", RESUME, "--trainer.max_epochs=3").sentence


def test_results_of_epochs_that_a_resumed_run_leaves_out_are_dropped(images, tmp_path):
    def train(*options):
        return lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", "--name=r", "--test_end=true", *options))

    assert train("--trainer.max_epochs=1").code == 0
    folder = tmp_path / "runs/test/r/seed0"
    best = folder / "checkpoints/best.ckpt"
    first = best.read_bytes()
    assert train("--ckpt_path=last", "--trainer.max_epochs=3").code == 0
    best.write_bytes(first)
    last = load_checkpoint(folder / "checkpoints/last.ckpt")
    (state,) = (state for name, state in last["callbacks"].items() if "BestCheckpoint" in name)
    state["best_model_score"] = torch.tensor(2.0)  # no epoch is better than the first
    torch.save(last, folder / "checkpoints/last.ckpt")
    add_rows(folder / "results.csv", [replace(read_rows(folder / "results.csv")[-1], split="test", epochs=3)])
    assert train("--ckpt_path=last", "--trainer.max_epochs=4").code == 0
    assert {row.epochs for row in read_rows(folder / "results.csv") if row.split == "test"} == {1}
    assert train("--ckpt_path=best", "--trainer.max_epochs=2").code == 0
    assert max(row.epochs for row in read_rows(folder / "results.csv")) == 2
