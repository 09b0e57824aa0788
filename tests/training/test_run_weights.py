"""The weights that a run ends with are one thing for all commands; averages of weights."""

import json

import pytest
import timm
import torch

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.artifacts.sources import resolve
from lgx.core.rows import read_rows
from lgx.results.model_facts import model_facts
from lgx.runs.jobs import Job
from lgx.runs.scheduler import run_rows
from lgx.training.callbacks.run_weights import BestCheckpoint
from tests.support.command_line import lgx, ok

CONSTANT = ["--name=c", "--model.scheduler=null", "--model.optimizer.lr=0.02", "--trainer.max_epochs=6", "--test_end"]
ENDS = ["--name=e", "--model.optimizer.lr=0.02", "--trainer.max_epochs=6", "--test_end"]


def test_the_margin_of_the_best_score_is_its_standard_error_and_is_resumed(tmp_path):
    best, again = (BestCheckpoint(tmp_path, "best", monitor="val/acc", mode="max") for _ in range(2))
    best.best_model_score, best.examples, best.last_score = torch.tensor(0.8), 100, 0.7
    again.load_state_dict(best.state_dict())
    assert (again.margin, again.last_score) == (pytest.approx(0.04), 0.7)


@pytest.fixture
def weights_of(fit, tmp_path):
    def run(options):
        ok(fit("Ancestor", *options))
        folder = tmp_path / "runs/test" / options[0].removeprefix("--name=") / "seed0"
        return folder, json.loads((folder / "summary.json").read_text())["weights"]

    return run


@pytest.mark.parametrize("options", [pytest.param(CONSTANT, marks=pytest.mark.slow), ENDS], ids=["constant", "ends"])
def test_what_is_exported_is_what_was_announced(weights_of, tmp_path, options):
    folder, kind = weights_of(options)
    announced = [r.value for r in read_rows(folder / "results.csv") if (r.split, r.metric) == ("test", "loss")][-1]
    chosen = load_pretrained(str(folder / f"checkpoints/{kind}.ckpt")).model.state_dict()
    learngene = Learngene.load(folder / "final.learngene.safetensors").tensors
    assert lgx("export", folder, "--out", tmp_path / "out").code == 0
    exported = timm.create_model(f"local-dir:{tmp_path / 'out'}", pretrained=True).state_dict()
    for name, tensor in chosen.items():
        assert torch.equal(tensor, exported[name])
        assert torch.equal(tensor, learngene[name])
    ok(lgx("test", "--config", folder / "config.yaml", "--name=t", f"--ckpt_path={folder}/checkpoints/{kind}.ckpt"))
    assert lgx("test", "--config", folder / "config.yaml").code == 0
    rows = [r for f in (folder, folder.parents[1] / "t/seed0") for r in read_rows(f / "results.csv")]
    losses = [r.value for r in rows if (r.split, r.metric) == ("test", "loss")]
    assert losses == pytest.approx([announced] * len(losses), abs=1e-6)


def test_without_an_end_the_best_weights_are_the_runs_and_a_folder_of_seeds_is_no_run(weights_of, tmp_path):
    folder, kind = weights_of(CONSTANT)
    found = [r for r in read_rows(folder / "results.csv") if r.split == "val"]
    scores, losses = ({r.epochs: r.value for r in found if r.metric == name} for name in ("acc", "loss"))
    epoch = max(scores, key=lambda number: (scores[number], -losses[number], number))
    assert kind == ("last" if epoch == 6 else "best")
    best, last = (model_facts(resolve(str(folder / f"checkpoints/{name}.ckpt"))) for name in ("best", "last"))
    assert "acc (%), test split" in (last if epoch == 6 else best)
    assert epoch == 6 or "acc (%), test split" not in last  # was not tested
    assert f"give one of them: {folder}" in lgx("export", folder.parent, "--out", tmp_path / "o").sentence


def test_tests_of_the_same_weights_have_the_epochs_that_trained_these_weights(weights_of):
    options = ["--name=w", "--model.optimizer.maximize=true", "--trainer.max_epochs=3", "--test_end"]
    options += ["--checkpoint.monitor=val/loss", "--checkpoint.mode=min", "--model.scheduler=null"]
    folder, kind = weights_of(options)  # each epoch makes the loss larger
    assert lgx("test", "--config", folder / "config.yaml").code == 0
    epochs = load_checkpoint(folder / "checkpoints/best.ckpt")["lgx"]["epochs"]
    assert (kind, epochs) == ("best", 1)
    assert {r.epochs for r in read_rows(folder / "results.csv") if r.split == "test"} == {1}
    assert {r.epochs for r in run_rows(Job("", str(folder), (), ""))} == {3}  # a sweep compares runs
    assert lgx("test", "--config", folder / "config.yaml", "--ckpt_path=last").code == 0
    files = ("checkpoints/best.ckpt", "final.learngene.safetensors")
    facts = [model_facts(resolve(str(folder / name))) for name in files]
    rows = read_rows(folder / "results.csv")
    (tested,) = {r.value for r in rows if (r.split, r.metric, r.epochs) == ("test", "acc", 1)}
    assert [f["acc (%), test split"] for f in facts] == pytest.approx([100 * tested] * 2, abs=1e-3)


def test_the_last_weights_of_an_ended_schedule_need_no_validation_and_get_no_score_of_others(fit, tmp_path):
    every = "--trainer.max_epochs=3", "--trainer.check_val_every_n_epoch=2"
    done = fit("Ancestor", *every, "--name=skipped")
    assert done.code == 0, done.err
    run = tmp_path / "runs/test/skipped/seed0"
    assert json.loads((run / "summary.json").read_text())["weights"] == "last"
    assert "last were not validated" in done.out
    assert Learngene.load(run / "final.learngene.safetensors").metrics == {}
