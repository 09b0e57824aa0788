"""Command lines in forks of a process that has imported everything: real processes without the seconds of imports."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from lgx.cli import main
from lgx.host.locks import locked

Command = list[object]

# Forks of a process that never trained: torch's autograd refuses to run in forks of a process that used it. The process
# of the tests has threads, too, so that a fork of it may hang.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.conftest", "lgx.methods", "lgx.training.cli", "data_modules", __name__])


def adopt(environment: Mapping[str, str]) -> None:
    """Take over the environment of the test: the server has that of its own start."""
    os.environ.clear()
    os.environ.update(environment)
    multiprocessing.set_start_method("fork", force=True)  # as in a command line, for loader processes


def _work(
    work: Callable[..., object], args: tuple[object, ...], folder: Path, log: str, environment: Mapping[str, str]
) -> None:
    os.setsid()
    adopt(environment)
    file = os.open(folder / log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.chdir(folder)
    work(*args)


def fork(work: Callable[..., object], args: tuple[object, ...], folder: Path, log: str = "log") -> BaseProcess:
    """Call a function in a process group of its own, in a folder, with its output in ``log``."""
    folder.mkdir(parents=True, exist_ok=True)
    process = PROCESSES.Process(target=_work, args=(work, args, folder, log, {**os.environ}))
    process.start()
    return process


def start(args: Command, folder: Path, log: str = "log") -> BaseProcess:
    """Run a command line as :func:`fork` does."""
    return fork(main, ([str(a) for a in args],), folder, log)


def finish(args: Command, folder: Path) -> float:
    """Run a command line to its end; returns the seconds it took."""
    began = time.monotonic()
    process = start(args, folder)
    process.join()
    assert process.exitcode == 0, (folder / "log").read_text()[-3000:]
    return time.monotonic() - began


def _hold(folder: Path, ready: Any, end: Any) -> None:
    with locked(folder):
        ready.set()
        end.wait()


@contextmanager
def held_elsewhere(folder: str | Path) -> Iterator[None]:
    """Let another process hold the lock of a run folder."""
    context = multiprocessing.get_context("fork")
    ready, end = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(folder, ready, end))
    holder.start()
    ready.wait()
    try:
        yield
    finally:
        end.set()
        holder.join()


def is_locked(folder: str | Path) -> bool:
    """Whether another process holds the lock of a run folder."""
    with locked(folder) as is_held:
        return not is_held
