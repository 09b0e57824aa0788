"""Checkpoints that do not fit the run, or are damaged, are refused with one sentence."""

import re

from lgx.artifacts.checkpoints import load_checkpoint
from tests.support.command_line import refusal


def test_a_checkpoint_of_another_method_is_refused(fit, ancestor):
    sentence = refusal(fit("Finetune", f"--ckpt_path={ancestor}/checkpoints/best.ckpt", command="test"))
    assert "holds a network of method ancestor, but this run is of method random" in sentence


def test_a_loss_that_is_not_finite_ends_the_run_before_a_checkpoint_within_an_epoch(fit, tmp_path):
    options = ["--data.batch_size=8", "--trainer.val_check_interval=2", "--trainer.log_every_n_steps=1000"]
    sentence = refusal(fit("Ancestor", "--name=a", "--model.optimizer.lr=1e30", "--trainer.max_epochs=2", *options))
    step = int(re.search(r"step (\d+): not finite", sentence)[1])
    saved = [
        load_checkpoint(file)["global_step"] for file in (tmp_path / "runs/test/a/seed0/checkpoints").glob("*.ckpt")
    ]
    assert step < 6
    assert all(number < step for number in saved)
