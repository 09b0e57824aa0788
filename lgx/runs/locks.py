"""Locks of run folders: a run is executed by one process at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(folder: str | Path) -> Iterator[int | None]:
    """Hold the lock of a run folder.

    The lock is a file beside the folder. The system releases it when the last process that inherited it ends.

    Args:
        folder: The run's folder, which need not exist.

    Yields:
        The file descriptor of the lock, which a child process may inherit; None if another process holds the lock.
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
    """Whether a process holds the lock of a run folder."""
    if not _lock_file(folder).exists():
        return False
    with locked(folder) as lock:
        return lock is None


def job_rank() -> int:
    """Rank of this process in its SLURM job; 0 outside of jobs that lgx submitted."""
    return int(os.environ.get("SLURM_PROCID", 0)) if os.environ.get("SUBMITIT_EXECUTOR") == "slurm" else 0


def _lock_file(folder: str | Path) -> Path:
    """Every process of a run that SLURM starts in several processes has its own lock."""
    folder, rank = Path(folder), job_rank()
    return folder.parent / (f".{folder.name}.rank{rank}.lock" if rank else f".{folder.name}.lock")
