"""``lgx fit`` as a job of a real SLURM cluster: under srun on two nodes, undisturbed and preempted."""

import signal
import subprocess
import sys

import pytest

from lgx.artifacts.checkpoints import load_checkpoint
from tests.support.command_line import arguments, free_port, python, wait_until
from tests.support.kills import of_run
from tests.support.slurm_sweeps import job_variables

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(900)]

TWO_NODES = ["--nodes=2", "--ntasks-per-node=1"]
SLOW = "--trainer.callbacks+=tests.support.probes.SlowSteps"


def command(images, runs, nodes, *options):
    """The command line of a run on two processes: of two nodes, or of this machine."""
    place = [f"--trainer.devices={2 // nodes}", f"--trainer.num_nodes={nodes}", "--trainer.strategy=ddp"]
    own = ["--name=r", "--data.batch_size=8", "--trainer.max_epochs=6", "--save_every=1", "--test_end=true"]
    return arguments("fit", "Ancestor", images, runs, *own, *place, *options, SLOW, "--ckpt_path=last")


def variables(seconds=0.0):
    """Environment of the processes; the nodes' names have no address outside of SLURM."""
    port = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    return {**job_variables(), **port, "LGX_TEST_STEP_SECONDS": str(seconds)}


@pytest.fixture(scope="module")
def local(images, tmp_path_factory):
    """Outcome of the run on two processes of this machine, without SLURM."""
    folder = tmp_path_factory.mktemp("local")
    done = python("-m", "lgx", *command(images, folder / "runs", 1), timeout=300, **job_variables())
    assert done.returncode == 0, done.stderr[-3000:]
    return of_run(folder)


@pytest.fixture
def submit(cluster, images, tmp_path):
    """``submit()``: the README's batch script; returns the job and the folder of its run."""

    def submit():
        words = [sys.executable, "-m", "lgx", *command(images, tmp_path / "runs", 2)]
        script = tmp_path / "job.sh"
        script.write_text("#!/bin/bash\nsrun --kill-on-bad-exit=1 " + " ".join(words) + "\n")
        exported = ",".join(f"{name}={value}" for name, value in variables(0.5).items())
        printed = cluster.tell(
            "sbatch", "--partition=low", "--requeue", "--open-mode=append", f"--output={tmp_path}/job.log",
            *TWO_NODES, f"--export=ALL,{exported}", script,
        )  # fmt: skip
        return printed.split()[-1], tmp_path / "runs/test/r/seed0"

    return submit


def on_two_nodes(cluster, images, runs, *options):
    """Run the command line under srun."""
    words = [sys.executable, "-m", "lgx", *command(images, runs, 2, *options)]
    return subprocess.run(
        ["srun", "--partition=low", "--kill-on-bad-exit=1", *TWO_NODES, *words],
        capture_output=True,
        text=True,
        timeout=200,
        env={**cluster.environment, **variables()},
    )


def test_two_nodes_train_like_two_processes_of_one_machine(cluster, images, tmp_path, local):
    done = on_two_nodes(cluster, images, tmp_path / "runs")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "2 process(es)" in done.stdout
    assert of_run(tmp_path) == local


def test_a_mistake_that_both_nodes_find_is_reported(cluster, images, tmp_path):
    done = on_two_nodes(cluster, images, tmp_path / "runs", "--data.batch_size=0")
    assert done.returncode in (2, 128 + signal.SIGTERM), done.stderr  # srun may end one process before its own exit
    reports = [line for line in done.stderr.splitlines() if line.startswith("lgx fit")]
    assert reports
    assert all("batch_size" in line for line in reports), done.stderr
    assert "Traceback" not in done.stderr


def test_a_preempted_run_on_two_nodes_is_requeued_and_resumed(submit, cluster, tmp_path, local):
    job, folder = submit()
    wait_until((folder / "checkpoints/last.ckpt").exists, 120, "the run saves a checkpoint")
    cluster.tell("sbatch", "--partition=high", "--nodes=2", "--output=/dev/null", "--wrap", "sleep 3")
    cluster.restart_now(job)
    steps = load_checkpoint(folder / "checkpoints/last.ckpt")["global_step"]
    assert 0 < steps < 18
    wait_until(lambda: cluster.jobs()[job] not in ("PENDING", "RUNNING", "COMPLETING"), 200, "the run ends")
    assert cluster.jobs()[job] == "COMPLETED"
    assert (folder / "starts").read_text().split() == ["0", str(steps)]
    assert of_run(tmp_path) == local
