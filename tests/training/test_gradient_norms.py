"""The callback that measures the gradient of each part of a loss."""

import pytest
import torch

from lgx.artifacts.checkpoints import load_checkpoint
from tests.support.command_line import ok, refusal
from tests.support.runs import curves

NORMS = ["--trainer.callbacks+=GradientNorms", "--trainer.callbacks.every_n_steps=1", "--trainer.log_every_n_steps=1"]


def test_the_parts_of_a_loss_are_measured_and_the_training_stays_the_same(fit, ancestor, tmp_path):
    options = ["--model.stages=[2,2]", f"--model.ancestor={ancestor}/best.learngene.safetensors", "--model.alpha=0.25"]
    options.append("--trainer.log_every_n_steps=1")
    for name, more in (("with", NORMS), ("without", [])):
        ok(fit("SWS", f"--name={name}", *options, *more))
    one, other = (tmp_path / f"runs/test/{name}/seed0" for name in ("with", "without"))
    states = [load_checkpoint(run / "checkpoints/last.ckpt")["state_dict"] for run in (one, other)]
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[1])
    found = curves(one)
    parts = sorted(tag for tag in found if tag.startswith("gradients/"))
    assert parts == ["gradients/loss_distillation", "gradients/loss_labels"]
    assert not [tag for tag in curves(other) if tag.startswith("gradients/")]
    labels, distill, whole = (found[tag] for tag in (parts[1], parts[0], "train/gradient_norm"))
    assert len(labels) == len(distill) == len(whole) == 3
    for (_, a), (_, b), (_, c) in zip(labels, distill, whole, strict=True):  # loss = 0.75 labels + 0.25 distill
        assert a > 0
        assert b > 0
        assert c <= 0.75 * a + 0.25 * b + 1e-5


@pytest.mark.parametrize("options", [["--trainer.precision=bf16-mixed"], ["--trainer.accumulate_grad_batches=3"]])
def test_it_works_with_other_ways_to_train(fit, tmp_path, options):
    ok(fit("TLEG", "--name=t", *NORMS, *options))


def test_values_stand_at_the_steps_that_they_were_measured_in(fit, tmp_path):
    every = ["--trainer.callbacks.every_n_steps=4", "--trainer.log_every_n_steps=2", "--trainer.max_epochs=3"]
    assert fit("TLEG", "--name=t", "--trainer.callbacks+=GradientNorms", *every).code == 0
    assert fit("TLEG", "--name=all", *NORMS, "--trainer.max_epochs=3").code == 0
    found, whole = (curves(tmp_path / f"runs/test/{name}/seed0") for name in ("t", "all"))
    for tag, steps in (("gradients/loss_labels", [3, 7]), ("train/gradient_norm", [1, 3, 5, 7])):
        if tag in whole:
            assert found[tag] == [point for point in whole[tag] if point[0] in steps]


def test_a_wrong_interval_is_one_sentence(fit):
    sentence = refusal(fit("TLEG", "--trainer.callbacks+=GradientNorms", "--trainer.callbacks.every_n_steps=0"))
    assert "trainer.callbacks.every_n_steps: expected a whole number of at least 1, got 0" in sentence
