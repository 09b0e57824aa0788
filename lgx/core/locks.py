"""Locks of run folders: one process at a time trains in a folder, whichever command started it.

The locks are ``flock`` locks, which the system releases when their process ends, however it ends. On NFS they hold
between machines if the server is NFSv4, or NFSv3 with its lock service; a mount with ``nolock`` or ``local_lock=all``
keeps them on one machine. On a file system without locks lgx says so once and goes on without them.
"""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lgx.errors import UserError

INHERITED = "LGX_RUN_LOCK"
"""Environment variable with the file descriptor of the lock that a sweep holds for the run that it starts."""


@contextmanager
def locked(folder: str | Path) -> Iterator[int | None]:
    """Hold the lock of a run folder.

    The lock is a file beside the folder. The system releases it when the last process that inherited it ends. A lock
    that :data:`INHERITED` names is held already.

    Args:
        folder: The run's folder, which need not exist.

    Yields:
        The file descriptor of the lock, which a child process may inherit; None if another process holds the lock.
    """
    path = _lock_file(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        if _is_inherited(file.fileno()):
            yield file.fileno()
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        except OSError as error:
            print(f"{path}: this file system has no locks ({error.strerror}); start no run twice", file=sys.stderr)
        yield file.fileno()


@contextmanager
def run_lock(folder: str | Path) -> Iterator[None]:
    """Hold the lock of a run folder, which no other process may hold.

    Args:
        folder: The run's folder, which need not exist.

    Raises:
        UserError: If another process holds it.
    """
    with locked(folder) as lock:
        if lock is None:
            raise UserError(f"{folder}: another process trains this run; wait until it ends, or give another --name")
        yield


def is_locked(folder: str | Path) -> bool:
    """Whether another process holds the lock of a run folder."""
    if not _lock_file(folder).exists():
        return False
    with locked(folder) as lock:
        return lock is None


def job_rank() -> int:
    """Rank of this process in its SLURM job; 0 outside of jobs that lgx submitted."""
    rank = os.environ.get("SLURM_PROCID", "0") if os.environ.get("SUBMITIT_EXECUTOR") == "slurm" else "0"
    if not rank.isdecimal():
        raise UserError(f"SLURM_PROCID: expected the rank of this process, got {rank!r}; start the job with srun")
    return int(rank)


def _is_inherited(descriptor: int) -> bool:
    """Whether this lock is the one that a sweep holds for this run."""
    inherited = os.environ.get(INHERITED, "")
    try:
        return inherited.isdecimal() and os.path.sameopenfile(int(inherited), descriptor)
    except OSError:  # the descriptor was not handed on, or is of another file by now
        return False


def _lock_file(folder: str | Path) -> Path:
    """Every process of a run that SLURM starts in several processes has its own lock."""
    folder, rank = Path(folder), job_rank()
    return folder.parent / (f".{folder.name}.rank{rank}.lock" if rank else f".{folder.name}.lock")
