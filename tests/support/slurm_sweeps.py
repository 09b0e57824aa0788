"""A sweep of two runs, the second of which needs the first, started on a cluster and disturbed there."""

import subprocess
import sys
from pathlib import Path

from lgx.artifacts.checkpoints import load_checkpoint
from tests.support.command_line import wait_until
from tests.support.kills import of_run, of_sweep
from tests.support.slurm_cluster import SlurmCluster
from tests.support.sweeps import write_chain

STEPS = 36
"""Optimizer steps of the first run."""


def write_sweep(folder: Path, images: Path) -> Path:
    """Write a sweep file: ``a`` trains an ancestor, which saves after each step; ``f`` trains from its learngene."""
    slow = {"max_epochs": STEPS // 6, "callbacks": [{"class_path": "tests.support.probes.SlowSteps"}]}
    return write_chain(folder, images, slow=slow, data={"batch_size": 8}, save_every=1)


def outcome(runs_dir: Path) -> list[object]:
    """Weights, steps, rows and learngenes of both runs, and the rows of the sweep."""
    return [of_sweep(runs_dir), *(of_run(runs_dir, f"s/{name}/seed0") for name in ("a", "f"))]


class SlurmSweep:
    """``lgx sweep --cluster slurm`` in a process; ``seconds`` for a step of the first run, submitit's ``options``."""

    def __init__(
        self, cluster: SlurmCluster, file: Path, runs_dir: Path, seconds: float = 0.5, **options: object
    ) -> None:
        self.cluster, self.file, self.runs_dir, self.seconds = cluster, file, runs_dir, seconds
        self.parameters = {"partition": "low", "timeout_min": 10, **options}
        self.log = runs_dir / "sweep.log"
        self.checkpoint = runs_dir / "s/a/seed0/checkpoints/last.ckpt"
        runs_dir.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """Start the command."""
        words = ["sweep", self.file, "--runs_dir", self.runs_dir, "--results", self.runs_dir / "all.csv"]
        words += ["--cluster", "slurm", "--parallel", "2", "--slurm", str(self.parameters)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lgx", *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**self.cluster.environment, **job_variables(), "LGX_TEST_STEP_SECONDS": str(self.seconds)},
            )

    def wait(self, seconds: float = 240) -> int:
        """Wait for the end of the command; returns its exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.stop()
            raise AssertionError(f"the sweep did not end; jobs {self.cluster.jobs()}\n{self.printed}") from None

    def stop(self) -> None:
        """Kill the command if it still runs."""
        if hasattr(self, "_process"):
            self._process.kill()
            self._process.wait()

    @property
    def printed(self) -> str:
        """What the command has printed."""
        return self.log.read_text()

    def job_in_training(self) -> str:
        """Wait until the first run has saved a checkpoint; returns the number of its job, which may have stopped."""
        found: list[str] = []
        wait_until(lambda: found.extend(self._running()) or found, 120, "the first run starts", lambda: self.printed)
        wait_until(self.checkpoint.exists, 120, "the first run saves a checkpoint", lambda: self.printed)
        return found[0]

    def _running(self) -> list[str]:
        return [number for number, state in self.cluster.jobs().items() if state == "RUNNING"]

    def saved(self) -> int:
        """Steps of the first run that are saved."""
        return int(load_checkpoint(self.checkpoint)["global_step"])


def job_variables() -> dict[str, str]:
    """Environment variables of the jobs."""
    return {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
