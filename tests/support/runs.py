"""Runs in processes of their own: killed and resumed, or on several processes."""

from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lgx.artifacts.checkpoints import load_checkpoint
from tests.support.command_line import arguments, lgx, ok, python
from tests.support.forks import start

EXACT = ["--trainer.max_epochs=2", "--data.augment=crop_flip", "--model.optimizer.eps=1e-4"]


def last_checkpoint(run: Path) -> dict[str, Any]:
    return load_checkpoint(run / "checkpoints" / "last.ckpt")


def curves(run: Path) -> dict[str, list[tuple[int, float]]]:
    """Tag -> step and value of every point in the event files of a run."""
    events = EventAccumulator(str(run))
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def kill_and_resume(
    images: Path, runs: Path, step: int, moment: str, options: list[str], method: str = "Ancestor"
) -> Path:
    """Train, kill the process at a step, and resume; returns the folder of the run."""
    base = arguments("fit", method, images, runs, "--name=r", *options)
    probe = ["--trainer.callbacks+=tests.support.probes.KillAt", f"--trainer.callbacks.step={step}"]
    probe += [f"--trainer.callbacks.moment={moment}"]
    killed = start([*base, *probe], runs.parent, log=f"{runs.name}.log")
    killed.join()
    assert killed.exitcode == -9, runs.with_name(f"{runs.name}.log").read_text()
    assert list(runs.rglob("*.tmp")) == []
    ok(lgx(*base, "--ckpt_path=last"))
    return runs / "test/r/seed0"


def train_on(
    devices: int, images: Path, folder: Path, batch: int, method: str = "Ancestor", options: tuple[str, ...] = ()
) -> Path:
    """Train on one or several processes; returns the folder in which ``RecordRank`` writes."""
    record = folder / f"record{devices}"
    args = arguments(
        "fit", method, images, folder / f"runs{devices}", "--name=r", *EXACT, *options,
        f"--data.batch_size={batch}", f"--trainer.devices={devices}",
        f"--trainer.strategy={'ddp' if devices > 1 else 'auto'}",
        "--trainer.callbacks+=tests.support.probes.RecordRank", f"--trainer.callbacks.folder={record}",
    )  # fmt: skip
    done = python("-m", "lgx", *args, OMP_NUM_THREADS="1", timeout=150)
    assert done.returncode == 0, done.stderr[-3000:]
    return record
