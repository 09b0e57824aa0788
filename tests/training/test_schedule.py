"""How many steps a run takes, and when its learning rate schedule ends."""

import pytest

from lgx.artifacts.checkpoints import load_checkpoint


def test_the_schedule_covers_the_limited_number_of_batches(fit, tmp_path):
    options = ["--name=l", "--data.batch_size=4", "--trainer.limit_train_batches=0.5", "--trainer.max_epochs=2"]
    result = fit("Ancestor", *options)
    assert "steps      12" in result.out
    checkpoint = load_checkpoint(tmp_path / "runs/test/l/seed0/checkpoints/last.ckpt")
    assert checkpoint["global_step"] == 12
    assert checkpoint["lr_schedulers"][0]["_last_lr"] == pytest.approx([0, 0], abs=1e-9)


def test_the_schedule_ends_with_whichever_limit_comes_first(fit):
    assert "steps      3," in fit("Ancestor", "--name=s", "--trainer.max_steps=1000").out
    result = fit("Ancestor", "--name=t", "--trainer.max_steps=2", "--trainer.max_epochs=9")
    assert "steps      2," in result.out
    # Without a validation there is no best checkpoint.
    assert fit("Ancestor", "--name=t", command="test").code == 0


def test_an_endless_run_is_refused_only_with_a_schedule(fit):
    endless = ["--trainer.max_epochs=-1", "--trainer.max_time=00:00:00:01"]
    assert "a schedule needs to know" in fit("Ancestor", "--name=e", *endless).sentence
    result = fit("Ancestor", "--name=f", "--model.scheduler=null", *endless)
    assert result.code == 0, result.err
    assert "until stopped" in result.out
