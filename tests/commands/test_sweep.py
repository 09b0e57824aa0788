"""``lgx sweep`` with several runs at a time: kills, Ctrl-C, wrong options."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from lgx.core.rows import read_rows
from tests.support.command_line import lgx, ok, refusal, wait_until
from tests.support.forks import is_locked
from tests.support.sweeps import config_of, write_sweep


@pytest.fixture
def sweep_file(images, tmp_path):
    """``sweep_file(run, ...)``, on the tiny images: ``fit.yaml`` trains an ancestor, ``descend.yaml`` a descendant."""
    for name, method in {"fit": "Ancestor", "descend": "Finetune"}.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(config_of(method, images, test_end=True)))
    return lambda *runs: [
        "sweep", str(write_sweep(tmp_path, *runs)), "--runs_dir", str(tmp_path / "runs"), "--parallel", "2",
    ]  # fmt: skip


def start(command):
    """Start a command that receives SIGINT, in its own process group, as a terminal does."""
    listen = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    return subprocess.Popen(
        [sys.executable, "-m", "lgx", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        preexec_fn=listen,
        start_new_session=True,
    )


@pytest.mark.slow
def test_after_kill_9_the_same_command_waits_for_the_runs(sweep_file, tmp_path):
    learngene = "{runs}/ancestor/seed{seed}/final.learngene.safetensors"
    start_of = {"model.initializer": "VanillaLG", "model.initializer.layers": 2, "model.initializer.source": learngene}
    command = sweep_file(
        {"name": "ancestor", "config": "fit.yaml"},
        {"name": "child", "command": "test", "config": "descend.yaml", "options": start_of},
    )
    killed = start(command)
    log = tmp_path / "runs/s/jobs/ancestor/seed0.log"
    wait_until((tmp_path / "runs/s/ancestor/.seed0.lock").exists, 100, "the ancestor starts")
    killed.kill()
    killed.wait()
    again = ok(lgx(*command))
    assert "2 of 2 done, 0 running" in again.out
    assert "waiting    ancestor seed 0: another process works on it" in log.read_text()
    assert log.read_text().count("Seed set to 0") == 1
    rows = read_rows(tmp_path / "runs/s/measured.csv")
    assert {(Path(row.run).parent.name, row.split) for row in rows} == {("ancestor", "test"), ("child", "test")}
    assert "0 of 2 runs to do" in lgx(*command).out


@pytest.mark.slow
def test_ctrl_c_stops_the_runs_with_one_message(sweep_file, tmp_path):
    command = sweep_file({"name": "long", "config": "fit.yaml", "options": {"trainer.max_epochs": 100000}})
    controller = start(command)
    wait_until((tmp_path / "runs/s/long/seed0/checkpoints/last.ckpt").exists, 100, "the run saves a checkpoint")
    for _ in range(10):  # an impatient user
        os.killpg(controller.pid, signal.SIGINT)
        time.sleep(0.05)
    _, err = controller.communicate(timeout=60)
    assert controller.returncode == 130, err
    assert err.strip() == "lgx sweep: interrupted; 1 run(s) were stopped, the same command resumes them"
    assert not is_locked(tmp_path / "runs/s/long/seed0")
    assert "SIGTERM: saved" in (tmp_path / "runs/s/jobs/long/seed0.log").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--parallel", "0"], "parallel: Not of type PositiveInt"),
        (["--slurm", "{partition: x}"], "needs --cluster slurm"),
        (["--cluster", "slurm"], "timeout_min is missing"),
        (["--cluster", "slurm", "--slurm", "{timeout_min: 5}"], "srun was not found"),
        (["--cluster", "pbs"], "cluster: Expected a "),
    ],
)
def test_wrong_options_are_explained(sweep_file, options, words, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    command = sweep_file({"name": "a", "config": "fit.yaml"})
    assert words in refusal(lgx(*command, *options))
