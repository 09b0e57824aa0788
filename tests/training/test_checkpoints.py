"""Checkpoints that do not fit the run, or are damaged, are refused with one sentence."""

import re

import torch

from lgx.artifacts.checkpoints import load_checkpoint
from tests.support.command_line import arguments, lgx
from tests.support.hostile import Payload


def test_a_checkpoint_of_another_method_is_refused(fit, ancestor):
    result = fit("Finetune", f"--ckpt_path={ancestor}/checkpoints/best.ckpt", command="test")
    assert result.code == 2
    assert "holds a network of method ancestor, but this run is of method random" in result.sentence


def test_resuming_with_another_optimizer_is_refused(images, ancestor, tmp_path):
    args = arguments("fit", "Ancestor", images, tmp_path, "--name=o", f"--ckpt_path={ancestor}/checkpoints/last.ckpt")
    result = lgx(*(a.replace("AdamW", "SGD") for a in args))
    assert result.code == 2
    assert "model.optimizer was AdamW, is SGD" in result.sentence


def test_a_hostile_checkpoint_is_refused_and_runs_nothing(fit, tmp_path):
    evidence, path = tmp_path / "evidence", tmp_path / "last.ckpt"
    torch.save({"state_dict": Payload(evidence)}, path)
    for command in ("fit", "test"):
        result = fit("Ancestor", f"--ckpt_path={path}", command=command)
        assert result.code == 2
        assert str(path) in result.sentence
        assert "Traceback" not in result.err
    assert not evidence.exists()


def test_a_corrupt_checkpoint_is_named(fit, ancestor, tmp_path):
    whole = (ancestor / "checkpoints/best.ckpt").read_bytes()
    for name, content in {"half.ckpt": whole[: len(whole) // 2], "empty.ckpt": b"", "text.ckpt": b"hello"}.items():
        (tmp_path / name).write_bytes(content)
        result = fit("Ancestor", f"--ckpt_path={tmp_path / name}", command="test")
        assert result.code == 2
        assert f"{name}: not an intact checkpoint" in result.sentence
        assert "Traceback" not in result.err
    torch.save({"lgx": {}}, tmp_path / "weightless.ckpt")
    result = fit("Ancestor", f"--ckpt_path={tmp_path / 'weightless.ckpt'}", command="test")
    assert (result.code, "not a checkpoint of an lgx run" in result.sentence) == (2, True)


def test_a_loss_that_is_not_finite_ends_the_run_before_a_checkpoint_within_an_epoch(fit, tmp_path):
    options = ["--data.batch_size=8", "--trainer.val_check_interval=2", "--trainer.log_every_n_steps=1000"]
    result = fit("Ancestor", "--name=a", "--model.optimizer.lr=1e30", "--trainer.max_epochs=2", *options)
    assert result.code == 2
    step = int(re.search(r"step (\d+): not finite", result.sentence)[1])
    saved = [
        load_checkpoint(file)["global_step"] for file in (tmp_path / "runs/test/a/seed0/checkpoints").glob("*.ckpt")
    ]
    assert step < 6
    assert all(number < step for number in saved)
