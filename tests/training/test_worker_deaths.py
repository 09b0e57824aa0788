"""A run whose process is killed or interrupted ends soon, names the reason, and resumes from its last checkpoint."""

import os
import signal
import subprocess
import sys
import time
from multiprocessing import resource_sharer
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from lightning.pytorch import Trainer

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.training.callbacks.results import SaveResults
from tests.support.command_line import arguments, lgx, python, wait_until
from tests.support.forks import start
from tests.support.images import write_images

OPTIONS = ["--name=r", "--trainer.max_epochs=4", "--data.batch_size=8"]
TWO = ["--trainer.devices=2", "--trainer.strategy=ddp"]


def command(images, runs, *probe):
    return arguments("fit", "Ancestor", images, runs, *OPTIONS, *probe)


def test_a_killed_worker_ends_the_run_with_one_sentence(images, tmp_path):
    probe = "--trainer.callbacks+=tests.support.probes.KillWorker", "--data.num_workers=2"
    run = start(command(images, tmp_path, *probe), tmp_path)
    run.join()
    assert run.exitcode == 1
    # Another worker may have printed that it lost this one, but the last line is from lgx.
    last = (tmp_path / "log").read_text().strip().splitlines()[-1]
    assert last.startswith("lgx fit: a data loading process was killed")


@pytest.mark.parametrize("heard", [False, True])
def test_a_worker_killed_while_it_sends_a_batch_is_reported(fit, monkeypatch, heard):
    # The sockets of a killed process close a moment before it counts as dead. Then a reset connection or the end of its
    # output is the only sign of it.
    def hand_over(sharer):
        with sharer._listener.accept() as caller:
            _ = caller.recv() if heard else caller.poll(None)

    monkeypatch.setattr(resource_sharer._ResourceSharer, "_serve", hand_over)
    ended = fit("Ancestor", "--data.num_workers=1")
    assert (ended.code, "Traceback" in ended.err) == (1, False)
    assert ended.sentence.startswith("lgx fit: a data loading process was killed")


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_ends_the_others_and_the_run_can_be_resumed(images, tmp_path, rank):
    probe = ["--trainer.callbacks+=tests.support.probes.KillAt", "--trainer.callbacks.step=4"]
    probe += [f"--trainer.callbacks.rank={rank}"]
    ended = python("-m", "lgx", *command(images, tmp_path, *TWO, *probe))
    assert ended.returncode not in (0, None)
    assert "Traceback" not in ended.stderr
    last = tmp_path / "test/r/seed0/checkpoints/last.ckpt"
    assert load_checkpoint(last)["global_step"] == 3
    assert list(tmp_path.rglob("*.tmp")) == []
    assert lgx(*command(images, tmp_path, "--data.batch_size=16", "--ckpt_path=last")).code == 0


def test_each_process_continues_its_own_share_of_an_interrupted_epoch():
    """The first process writes the checkpoint for all; ``make slurm`` checks this with real processes."""
    shares = [(3, 0.5), (4, 0.25)]

    def trainer(rank, world):
        column = iter([torch.tensor([seen for seen, _ in shares]), torch.tensor([mean for _, mean in shares])])
        strategy = SimpleNamespace(all_gather=lambda _: next(column))
        return SimpleNamespace(global_rank=rank, world_size=world, is_global_zero=rank == 0, strategy=strategy)

    first = SaveResults()
    first.load_state_dict({"epoch": 2, "seen": 3, "mean": 0.5})
    checkpoint = {"callbacks": {first.state_key: first.state_dict()}}
    first.on_save_checkpoint(trainer(0, 2), SimpleNamespace(device="cpu"), checkpoint)

    def resumed(rank, world):
        callback = SaveResults()
        callback.load_state_dict(checkpoint["callbacks"][first.state_key])
        callback.on_train_start(trainer(rank, world), None)
        state = callback.state_dict()
        return state["seen"], state["mean"]

    assert [resumed(rank, 2) for rank in (0, 1)] == shares
    assert resumed(0, 1) == (7, pytest.approx((3 * 0.5 + 4 * 0.25) / 7))
    assert resumed(0, 3)[0] == 7
    assert resumed(1, 3) == (0, 0.0)


@pytest.mark.slow
def test_a_wrong_image_under_ddp_gives_no_traceback(tmp_path):
    images = write_images(tmp_path / "shapes", {"train": 24, "val": 6, "test": 3})
    broken = images / "train" / "circle" / "000.png"
    broken.write_bytes(broken.read_bytes()[:60])
    options = ["--name=d", "--trainer.devices=2", "--trainer.strategy=ddp", "--data.batch_size=12"]
    args = arguments("fit", "Ancestor", images, tmp_path / "runs", *options)
    done = python("-m", "lgx", *[a for a in args if a != "--trainer.devices=1"], OMP_NUM_THREADS="1")
    assert done.returncode != 0
    assert "000.png" in done.stderr
    assert "Traceback" not in done.stderr


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
    wait_until(last.exists, 100, "the run saves a checkpoint")
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
