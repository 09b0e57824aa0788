"""Options of the recipe for own images: early stopping, and a learning rate for each layer."""

import json

import pytest
import torch

from lgx.architectures import parse_architecture
from lgx.components.optim import parameter_groups
from tests.support.command_line import ARCH


def test_a_run_stops_after_so_many_validations_without_a_better_score(fit, tmp_path):
    options = ["--name=s", "--model.optimizer.lr=0", "--trainer.max_epochs=9", "--early_stop=2", "--test_end"]
    result = fit("Finetune", *options)
    assert result.code == 0, result.err
    assert "stopped    early: " in result.out
    summary = json.loads((tmp_path / "runs/test/s/seed0/summary.json").read_text())
    assert summary["epochs"] == 3
    assert "early_stop: expected a whole number of at least 1" in fit("Finetune", "--name=b", "--early_stop=0").sentence


def test_each_layer_has_its_own_learning_rate():
    network = parse_architecture(ARCH, num_classes=3).build()
    groups, depth = parameter_groups(network, 0.5), len(network.blocks)
    scales = {id(p): group["lr_scale"] for group in groups for p in group["params"]}
    assert scales[id(network.head.weight)] == 1
    for layer, block in enumerate(network.blocks):
        assert {scales[id(p)] for p in block.parameters()} == {0.5 ** (depth - layer)}
    assert scales[id(network.pos_embed)] == 0.5 ** (depth + 1)
    assert all(("weight_decay" in group) == all(p.ndim < 2 or p is network.pos_embed or p is network.cls_token
               for p in group["params"]) for group in groups)  # fmt: skip


def test_the_rates_reach_the_optimizer_and_follow_the_schedule(fit, tmp_path):
    options = ["--name=l", "--model.layer_decay=0.5", "--model.optimizer.lr=0.004", "--trainer.max_steps=1"]
    result = fit("Finetune", *options)
    assert result.code == 0, result.err
    checkpoint = torch.load(tmp_path / "runs/test/l/seed0/checkpoints/last.ckpt", weights_only=True)
    groups = checkpoint["optimizer_states"][0]["param_groups"]
    assert max(group["initial_lr"] for group in groups) == pytest.approx(0.004)
    assert min(group["initial_lr"] for group in groups) < 0.001
    assert not any("lr_scale" in group for group in groups)
    assert "model.layer_decay" in fit("Finetune", "--name=x", "--model.layer_decay=1.5").sentence
