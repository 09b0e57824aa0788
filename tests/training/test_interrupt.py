"""Ctrl-C ends a run with one sentence, and the run can be resumed."""

import os
import signal
import subprocess
import sys
import time
from unittest.mock import Mock

import pytest
from lightning.pytorch import Trainer

from lgx.artifacts.checkpoints import load_checkpoint
from tests.support.command_line import arguments, lgx


def _listen() -> None:
    """Restore the handler of SIGINT: background jobs of a shell ignore it, and so do their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_before_the_first_checkpoint_promises_none(fit, monkeypatch):
    monkeypatch.setattr(Trainer, "fit", interrupted := Mock(side_effect=KeyboardInterrupt))
    done = fit("Ancestor", "--name=i")
    assert (done.code, interrupted.called, "ckpt_path" in done.err) == (130, True, False), done.err
    assert "no checkpoint yet" in done.sentence


@pytest.mark.slow
def test_ctrl_c_ends_fit_with_one_sentence_and_keeps_the_last_checkpoint(images, tmp_path):
    options = ["--name=r", "--trainer.max_epochs=100000"]
    args = arguments("fit", "Ancestor", images, tmp_path, *options)
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.Popen(
        [sys.executable, "-m", "lgx", *args], stderr=subprocess.PIPE, text=True, env=env, preexec_fn=_listen
    )
    last = tmp_path / "test/r/seed0/checkpoints/last.ckpt"
    deadline = time.monotonic() + 100
    while not last.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    for _ in range(10):  # an impatient user
        run.send_signal(signal.SIGINT)
        time.sleep(0.05)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    assert "Traceback" not in err
    assert err.strip().splitlines()[-1].endswith("resume it with --ckpt_path last")
    assert list(tmp_path.rglob("*.tmp")) == []
    epochs = load_checkpoint(last)["lgx"]["epochs"]
    args[args.index("--trainer.max_epochs=100000")] = f"--trainer.max_epochs={epochs + 1}"
    assert lgx(*args, "--ckpt_path=last").code == 0
    assert load_checkpoint(last)["lgx"]["epochs"] == epochs + 1
