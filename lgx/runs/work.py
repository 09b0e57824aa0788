"""One command line of lgx: the lock under which it works, its process, and the mark of having finished."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lgx.core.files import atomic_path

PATIENCE = 30.0
"""Seconds that a run has to save its state and end when it is told to."""


@dataclass(frozen=True)
class Work:
    """One command line that is to be run.

    Attributes:
        name: What people call it, e.g. ``sws-8 seed 0``.
        folder: The run's folder.
        arguments: The command line without the program's name.
        log: File that its output is added to.
        inputs: Files that it reads and that may change: its configuration, the learngenes of other runs.
        outputs: Files that it writes for other runs.
    """

    name: str
    folder: str
    arguments: tuple[str, ...]
    log: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


class RunFailed(Exception):
    """A run ended with an exit code other than 0."""


def do(work: Work, environment: Mapping[str, str], patience: float | None) -> bool:
    """Run the command line in a fresh process and wait for it.

    The process inherits the lock, so that the run stays locked as long as it lives, even if this process is killed.

    Args:
        work: What to run.
        environment: Variables that the process gets besides ours.
        patience: On SIGTERM the process gets it too, and after so many seconds SIGKILL; None where a cluster signals
            all processes of a job itself.

    Returns:
        True if the run has finished; False if another process works on it.

    Raises:
        RunFailed: If it ended with another exit code than 0.
        SystemExit: If it ended with 0 before it was finished: SLURM has queued it again.
    """
    told = threading.Event()
    if patience is not None:
        signal.signal(signal.SIGTERM, lambda *_: told.set())
    signal.signal(signal.SIGUSR1, lambda *_: None)  # meant for the run, which requeues itself
    with locked(work.folder) as lock:
        if lock is None:
            return False
        if is_finished(work):
            return True
        before = _changed(_summary(work))
        Path(work.log).parent.mkdir(parents=True, exist_ok=True)
        with open(work.log, "ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "lgx", *work.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                pass_fds=[lock],
            )
        code = _wait(child, told, patience or 0.0)
        if code:
            raise RunFailed(f"{work.name} ended with exit code {code}; see {work.log}")
        if _rank() == 0:
            if work.arguments[0] == "fit" and _changed(_summary(work)) == before:
                raise SystemExit(0)
            mark_finished(work)
    return True


def do_here(work: Work) -> bool:
    """Run the command line in this process.

    Returns:
        True if the run has finished; False if another process works on it.

    Raises:
        UserError: For a user's mistake; and whatever else a run raises.
    """
    with locked(work.folder) as lock:
        if lock is None:
            return False
        if not is_finished(work):
            from lgx.training.cli import run

            try:
                run(list(work.arguments))
            finally:
                _leave_process_group()
            mark_finished(work)
    return True


@contextmanager
def locked(folder: str | Path) -> Iterator[int | None]:
    """Hold a run's lock, a file beside its folder; the system releases it when the last process that has it ends.

    Yields:
        The lock's file descriptor, to be inherited; None if another process holds the lock.
    """
    path = _lock_file(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield file.fileno()


def is_locked(folder: str | Path) -> bool:
    """Whether a process works on a run."""
    if not _lock_file(folder).exists():
        return False
    with locked(folder) as lock:
        return lock is None


def is_finished(work: Work) -> bool:
    """Whether this very command line has finished, nothing that it reads has changed since, and its files are there."""
    mark = _mark(work)
    try:
        same = json.loads(mark.read_text()) == list(work.arguments)
    except (OSError, ValueError):
        return False
    unchanged = all(_changed(Path(file)) <= _changed(mark) for file in work.inputs)
    return same and unchanged and all(Path(file).exists() for file in work.outputs)


def mark_finished(work: Work) -> None:
    """Leave the command line in the run's folder."""
    with atomic_path(_mark(work)) as temporary:
        temporary.write_text(json.dumps(work.arguments) + "\n")


def _mark(work: Work) -> Path:
    return Path(work.folder) / "finished.json"


def _summary(work: Work) -> Path:
    """What a fit writes last."""
    return Path(work.folder) / "summary.json"


def _changed(file: Path) -> int:
    """Time of a file's last change in nanoseconds; 0 if it is missing."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _lock_file(folder: str | Path) -> Path:
    """Every process of a run that SLURM starts in several has a lock of its own."""
    folder, rank = Path(folder), _rank()
    return folder.parent / (f".{folder.name}.rank{rank}.lock" if rank else f".{folder.name}.lock")


def _rank() -> int:
    return int(os.environ.get("SLURM_PROCID", 0)) if os.environ.get("SUBMITIT_EXECUTOR") == "slurm" else 0


def _wait(child: "subprocess.Popen[bytes]", told: threading.Event, patience: float) -> int:
    """Wait for the process; end it when we are told to."""
    deadline = None
    while True:
        try:
            return child.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            if told.is_set() and deadline is None:
                child.terminate()
                deadline = time.monotonic() + patience
            elif deadline is not None and time.monotonic() > deadline:
                child.kill()


def _leave_process_group() -> None:
    """Forget the run's processes: what Lightning leaves of them would make the next run join a group that is gone."""
    import torch.distributed

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    for name in ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
