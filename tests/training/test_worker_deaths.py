"""When a process of a run is killed, the run ends soon, names the reason, and resumes from its last checkpoint."""

import signal
import subprocess
import sys
from multiprocessing import resource_sharer

import pytest

from lgx.artifacts.checkpoints import load_checkpoint
from tests.support.command_line import arguments, lgx, python
from tests.support.forks import start

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
def test_a_run_with_a_closed_output_pipe_fails_with_sigpipe(images, tmp_path):
    words = [sys.executable, "-m", "lgx", *arguments("fit", "Ancestor", images, tmp_path, "--name=r")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        run.stdout.close()
        assert "Traceback" not in run.stderr.read()
    assert run.returncode == 128 + signal.SIGPIPE


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_ends_the_others_and_the_run_can_be_resumed(images, tmp_path, rank):
    probe = ["--trainer.callbacks+=tests.support.probes.KillAt", "--trainer.callbacks.step=4"]
    probe += [f"--trainer.callbacks.rank={rank}"]
    ended = python("-m", "lgx", *command(images, tmp_path, *TWO, *probe), LGX_ALLOW_IMPORTS="tests")
    assert ended.returncode not in (0, None)
    assert "Traceback" not in ended.stderr
    last = tmp_path / "test/r/seed0/checkpoints/last.ckpt"
    assert load_checkpoint(last)["global_step"] == 3
    assert list(tmp_path.rglob("*.tmp")) == []
    assert (
        lgx(*arguments("fit", "Ancestor", images, tmp_path, *OPTIONS, "--data.batch_size=16", "--ckpt_path=last")).code
        == 0
    )
