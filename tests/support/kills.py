"""Kill command lines during their work, and compare what they leave."""

import contextlib
import hashlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.core.rows import read_rows
from tests.support.forks import Command, start

Outcome = Callable[[Path], object]
RunOutcome = tuple[dict[str, Any], int, list[tuple[str, int, str, float, int]], str]
"""Weights, number of steps, rows (split, epochs, metric, value, examples), and digest of the learngene of a run."""


def attack(args: Command, folder: Path, seconds: float) -> int:
    """Kill a command and its children after some seconds; returns its exit code."""
    process = start(args, folder)
    pid = cast(int, process.pid)
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        while process.exitcode is None and os.getpgid(pid) != pid:
            time.sleep(0.001)  # before, a signal would reach the test's own process
        process.join(seconds)
        if process.exitcode is None:
            os.killpg(pid, signal.SIGKILL)
    process.join()
    return cast(int, process.exitcode)


def contents(folder: Path) -> dict[str, str]:
    """Digest of every file that has its final name, except the log."""
    names = (p.relative_to(folder) for p in sorted(folder.rglob("*")) if p.is_file() and p.name != "log")
    final = (name for name in names if not any(part.endswith(".tmp") for part in name.parts))
    return {str(name): hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in final}


def of_run(folder: Path, place: str = "runs/test/r/seed0") -> RunOutcome:
    """Weights, steps, rows and learngene of a run."""
    run = folder / place
    last = load_checkpoint(run / "checkpoints/last.ckpt")
    weights = {name: tensor.tolist() for name, tensor in last["state_dict"].items()}
    rows = [(r.split, r.epochs, r.metric, r.value, r.n) for r in read_rows(run / "results.csv")]
    (learngene,) = [file.read_bytes() for file in run.glob("final.learngene.safetensors")] or [b""]
    return weights, last["global_step"], rows, hashlib.sha256(learngene).hexdigest()


def of_sweep(folder: Path) -> object:
    """Collected rows, in order: none is missing, and none is there twice."""
    return [(r.method, r.epochs, r.metric, r.value, r.seed) for r in read_rows(folder / "all.csv")]
