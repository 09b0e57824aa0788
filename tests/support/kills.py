"""Command lines in forks of a process that has imported everything, so that kills happen during their work."""

import contextlib
import hashlib
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, cast

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.cli import main
from lgx.core.rows import read_rows

Command = list[object]
Outcome = Callable[[Path], object]
RunOutcome = tuple[dict[str, Any], int, list[tuple[str, int, str, float]], str]
"""Weights, number of steps, rows (split, epochs, metric, value), and digest of the learngene of a run."""


# Forks of a process that never trained: torch's autograd refuses to run in forks of a process that used it.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["lgx.methods", "lgx.training.cli", __name__])


def work(args: list[str], folder: Path, limits: dict[int, int], log_name: str) -> None:
    """Run the command line in a process group of its own; this is what a fork does."""
    os.setsid()
    multiprocessing.set_start_method("fork", force=True)  # as in a command line, for loader processes
    log = os.open(folder / log_name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(folder)
    os.environ["LGX_ALLOW_IMPORTS"] = "tests"  # for the callbacks in tests.support.probes
    for limit, value in limits.items():
        resource.setrlimit(limit, (value, resource.getrlimit(limit)[1]))
    main(args)


def start(args: Command, folder: Path, limits: dict[int, int] | None = None, log: str = "log") -> BaseProcess:
    """Run a command line in a process that has imported everything.

    Args:
        args: The command line.
        folder: Its working folder.
        limits: Resource -> soft limit.
        log: File of its output, in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    process = PROCESSES.Process(target=work, args=([str(a) for a in args], folder, limits or {}, log))
    process.start()
    return process


def finish(args: Command, folder: Path) -> float:
    """Run a command line to its end; returns the seconds it took."""
    began = time.monotonic()
    process = start(args, folder)
    process.join()
    assert process.exitcode == 0, (folder / "log").read_text()[-3000:]
    return time.monotonic() - began


def kill_during(args: Command, folder: Path, seconds: float) -> bool:
    """Kill a command line after some seconds; returns whether it was still running."""
    process = start(args, folder)
    process.join(seconds)
    if process.exitcode is not None:
        return False
    with contextlib.suppress(ProcessLookupError):  # it has no process group yet
        os.killpg(cast(int, process.pid), signal.SIGKILL)
    process.kill()
    process.join()
    return True


def contents(folder: Path) -> dict[str, str]:
    """Digest of every file that has its final name, except the log."""
    names = (p.relative_to(folder) for p in sorted(folder.rglob("*")) if p.is_file() and p.name != "log")
    final = (name for name in names if not any(part.endswith(".tmp") for part in name.parts))
    return {str(name): hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in final}


def of_run(folder: Path) -> RunOutcome:
    """Weights, optimizer and rows of a run."""
    run = folder / "runs/test/r/seed0"
    last = load_checkpoint(run / "checkpoints/last.ckpt")
    weights = {name: tensor.tolist() for name, tensor in last["state_dict"].items()}
    rows = [(r.split, r.epochs, r.metric, r.value) for r in read_rows(run / "results.csv")]
    learngene = hashlib.sha256((run / "best.learngene.safetensors").read_bytes()).hexdigest()
    return weights, last["global_step"], rows, learngene


def of_sweep(folder: Path) -> object:
    """Collected rows, in order: none is missing, and none is there twice."""
    return [(r.method, r.epochs, r.metric, r.value, r.seed) for r in read_rows(folder / "all.csv")]
