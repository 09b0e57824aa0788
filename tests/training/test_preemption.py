"""A run that the cluster preempts saves its state after a complete step, is requeued, and resumes bit for bit."""

import csv
import os
import signal

import pytest
import torch

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.host.signals import STOP
from lgx.methods.baselines.finetune import Ancestor
from tests.support.command_line import arguments, lgx, ok, python
from tests.support.forks import start

OPTIONS = ["--name=r", "--trainer.max_epochs=3", "--data.batch_size=8", "--data.augment=crop_flip"]


@pytest.fixture(scope="module")
def undisturbed(images, tmp_path_factory):
    runs = tmp_path_factory.mktemp("undisturbed")
    assert lgx(*arguments("fit", "Ancestor", images, runs, *OPTIONS)).code == 0
    return load_checkpoint(runs / "test/r/seed0/checkpoints/last.ckpt")


def signalled(images, runs, number, *options):
    """Train, and send a signal between the second step's backward pass and its update."""
    probe = ["--trainer.callbacks+=tests.support.probes.SignalAt", "--trainer.callbacks.step=1"]
    probe += [f"--trainer.callbacks.number={int(number)}"]
    return lgx(*arguments("fit", "Ancestor", images, runs, *OPTIONS, *options, "--ckpt_path=last", *probe))


def assert_goes_on(images, runs, undisturbed, *options):
    assert lgx(*arguments("fit", "Ancestor", images, runs, *OPTIONS, *options, "--ckpt_path=last")).code == 0
    resumed = load_checkpoint(runs / "test/r/seed0/checkpoints/last.ckpt")
    assert resumed["global_step"] == undisturbed["global_step"]
    for name, tensor in undisturbed["state_dict"].items():
        assert torch.equal(tensor, resumed["state_dict"][name]), name


def test_sigterm_saves_after_the_current_step(images, tmp_path, undisturbed):
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)]
    ended = signalled(images, tmp_path, signal.SIGTERM)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)] == before
    assert ended.code == 143, ended.err
    last = tmp_path / "test/r/seed0/checkpoints/last.ckpt"
    assert ended.sentence == (f"lgx fit: SIGTERM: saved {last}; the run resumes with --ckpt_path last")
    assert "Traceback" not in ended.err
    assert load_checkpoint(last)["global_step"] == 2
    assert_goes_on(images, tmp_path, undisturbed)


def test_a_signal_to_the_group_leaves_the_loader_processes_alone(images, tmp_path, undisturbed):
    workers = "--data.num_workers=2"
    probe = ["--trainer.callbacks+=tests.support.probes.SignalAt", "--trainer.callbacks.step=1"]
    probe += [f"--trainer.callbacks.number={int(signal.SIGTERM)}", "--trainer.callbacks.group=true"]
    words = arguments("fit", "Ancestor", images, tmp_path, *OPTIONS, workers, "--ckpt_path=last", *probe)
    run = start(words, tmp_path)
    run.join()
    said = (tmp_path / "log").read_text()
    assert run.exitcode == 143, said
    assert "saved" in said
    assert_goes_on(images, tmp_path, undisturbed, workers)


def test_a_step_of_accumulated_gradients_is_finished_first(images, tmp_path):
    accumulate = "--trainer.accumulate_grad_batches=2"
    whole, runs = tmp_path / "whole", tmp_path / "runs"
    assert lgx(*arguments("fit", "Ancestor", images, whole, *OPTIONS, accumulate)).code == 0
    assert signalled(images, runs, signal.SIGTERM, accumulate).code == 143
    assert_goes_on(images, runs, load_checkpoint(whole / "test/r/seed0/checkpoints/last.ckpt"), accumulate)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """The environment of a SLURM job: its variables, and an ``scontrol`` that records its arguments."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    scontrol = folder / "scontrol"
    note = f'test -e "$LAST" && echo "$@" >> {folder}/asked'
    scontrol.write_text(f"#!/bin/sh\n{note}\necho Job is held >&2\nexit ${{REFUSES:-0}}\n")
    scontrol.chmod(0o755)
    variables = {
        "PATH": f"{folder}:{os.environ['PATH']}", "LAST": str(tmp_path / "test/r/seed0/checkpoints/last.ckpt"),
        "SLURM_JOB_ID": "777", "SLURM_JOB_NAME": "lgx", "SLURM_NTASKS": "1", "SLURM_NTASKS_PER_NODE": "1",
        "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_JOB_NODELIST": "localhost",
    }  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return folder / "asked"


def test_slurm_requeues_the_job_once_the_state_is_saved(images, tmp_path, undisturbed, slurm):
    assert ok(signalled(images, tmp_path, signal.SIGUSR1)).sentence.endswith("job 777 is requeued")
    assert slurm.read_text().split() == ["requeue", "777"]
    assert list(tmp_path.rglob("hpc_ckpt*")) == []
    assert_goes_on(images, tmp_path, undisturbed)  # still within the job, as after a requeue


def test_a_refused_requeue_of_a_job_of_an_array_is_reported(images, tmp_path, slurm, monkeypatch):
    for name, value in (("SLURM_ARRAY_JOB_ID", "700"), ("SLURM_ARRAY_TASK_ID", "3"), ("REFUSES", "1")):
        monkeypatch.setenv(name, value)
    ended = signalled(images, tmp_path, signal.SIGUSR1)
    assert slurm.read_text().split() == ["requeue", "700_3"]
    assert ended.code == 138, ended.err
    assert "`scontrol requeue 700_3` failed (Job is held); submit the job again" in ended.sentence
    assert (tmp_path / "test/r/seed0/checkpoints/last.ckpt").exists()


def test_a_signal_before_the_first_step_requeues_the_job_after_it(images, tmp_path, undisturbed, slurm):
    """SLURM may signal a job whose time limit is short while it imports its packages."""
    probe = "--trainer.callbacks+=tests.support.probes.SignalWhenBuilt"
    ended = lgx(*arguments("fit", "Ancestor", images, tmp_path, *OPTIONS, "--ckpt_path=last", probe))
    assert ended.sentence.endswith("job 777 is requeued")
    assert slurm.read_text().split() == ["requeue", "777"]
    assert load_checkpoint(tmp_path / "test/r/seed0/checkpoints/last.ckpt")["global_step"] == 1
    assert_goes_on(images, tmp_path, undisturbed)


@pytest.mark.slow
def test_two_processes_stop_together_if_either_gets_the_signal(images, tmp_path):
    """Only the second process gets the signal."""
    probe = ["--trainer.callbacks+=tests.support.probes.SignalAt", "--trainer.callbacks.step=1"]
    probe += ["--trainer.callbacks.rank=1", f"--trainer.callbacks.number={int(signal.SIGTERM)}"]
    two = ["--trainer.devices=2", "--trainer.strategy=ddp"]
    ended = python("-m", "lgx", *arguments("fit", "Ancestor", images, tmp_path, *OPTIONS, *probe, *two))
    assert ended.returncode == 143, ended.stderr
    assert "SIGTERM: saved" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert load_checkpoint(tmp_path / "test/r/seed0/checkpoints/last.ckpt")["global_step"] == 2


def test_the_tables_of_a_preempted_run_have_every_step(images, tmp_path):
    table = ["--trainer.logger=CSVLogger", "--trainer.log_every_n_steps=1"]
    assert signalled(images, tmp_path, signal.SIGTERM, *table).code == 143
    assert lgx(*arguments("fit", "Ancestor", images, tmp_path, *OPTIONS, *table, "--ckpt_path=last")).code == 0
    steps = []
    for file in sorted(tmp_path.rglob("metrics.csv")):
        with file.open() as rows:
            steps += [int(row["step"]) for row in csv.DictReader(rows) if row["train/loss"]]
    assert steps == list(range(18))


@pytest.mark.parametrize(
    ("step", "option"), [("training_step", []), ("test_step", ["--test_start"]), ("test_step", ["--test_end"])]
)
def test_a_signal_that_loader_processes_get_before_they_have_left_the_group_is_no_lack_of_memory(
    fit, monkeypatch, step, option
):
    def killed(method, *batch):
        if step == "test_step":
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            STOP.received = signal.SIGTERM
        raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Terminated.")

    monkeypatch.setattr(Ancestor, step, killed)
    ended = fit("Ancestor", "--name=g", *option)
    assert (ended.code, ended.sentence.startswith("lgx fit: SIGTERM: ")) == (143, True), ended.err
