"""Training through the command line, on real images, with real checkpoints."""

import json

import pytest
import torch
import yaml

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.core.rows import read_rows
from tests.support.command_line import ok


def test_an_ancestor_learns_and_leaves_a_complete_run(ancestor):
    rows = [r for r in read_rows(ancestor / "results.csv") if r.metric == "acc"]
    losses = [r for r in read_rows(ancestor / "results.csv") if r.split == "train"]
    assert [(r.epochs, r.metric, r.n) for r in losses] == [(epoch, "loss", 48) for epoch in range(1, 9)]
    assert losses[-1].value < losses[0].value
    assert [r.epochs for r in rows] == list(range(1, 9))
    assert max(r.value for r in rows) >= 0.6  # chance is 1/3
    assert {(r.method, r.task, r.split, r.n, r.seed) for r in rows} == {("ancestor", "shapes", "val", 9, 0)}
    assert yaml.safe_load((ancestor / "config.yaml").read_text())["trainer"]["max_epochs"] == 8
    assert json.loads((ancestor / "summary.json").read_text())["steps"] == 24
    assert (ancestor / "checkpoints" / "last.ckpt").is_file()
    learngene = Learngene.load(ancestor / "final.learngene.safetensors")
    assert learngene.method == "ancestor"
    assert learngene.task["name"] == "shapes"
    best = load_checkpoint(ancestor / "checkpoints" / "best.ckpt")
    assert torch.equal(learngene.tensors["head.weight"], best["state_dict"]["network.head.weight"])
    assert learngene.metrics["val/acc"] == pytest.approx(max(r.value for r in rows))


def test_a_variant_has_its_own_name_in_results_and_its_method_in_the_learngene(fit, tmp_path):
    result = ok(fit("SWS", "--model.stages=[3,1]", "--model.label=sws_31", "--name=variant"))
    assert "method     sws_31 on" in result.out
    run = tmp_path / "runs/test/variant/seed0"
    assert {row.method for row in read_rows(run / "results.csv")} == {"sws_31"}
    assert Learngene.load(run / "final.learngene.safetensors").method == "sws"
    start = ["--model.initializer=StagewiseExpansion", f"--model.initializer.source={run}/final.learngene.safetensors"]
    for name, label in (("plain", "sws"), ("named", "sws_31")):
        result = ok(fit("Finetune", *start, f"--name={name}", *(["--model.label=sws_31"] if name == "named" else [])))
        assert {row.method for row in read_rows(tmp_path / f"runs/test/{name}/seed0/results.csv")} == {label}


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(fit, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert fit("Ancestor", f"--name={name}", f"--seed_everything={seed}", "--data.augment=crop_flip").code == 0
    a, b, c = (
        load_checkpoint(tmp_path / f"runs/test/{name}/seed{seed}/checkpoints/last.ckpt")["state_dict"]
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert not torch.equal(a["network.head.weight"], c["network.head.weight"])


def test_a_checkpoint_within_the_first_epoch_counts_as_trained(fit, tmp_path):
    assert fit("Ancestor", "--name=v", "--trainer.val_check_interval=1", "--save_every=1").code == 0
    best = load_checkpoint(tmp_path / "runs/test/v/seed0/checkpoints/best.ckpt")
    assert best["lgx"]["epochs"] == 1


@pytest.mark.slow
def test_a_compiled_network_saves_plain_names(fit, tmp_path):
    ok(fit("Ancestor", "--name=c", "--model.compile=true"))
    state = load_checkpoint(tmp_path / "runs/test/c/seed0/checkpoints/last.ckpt")["state_dict"]
    assert all(name.startswith("network.") and "_orig_mod" not in name for name in state)
