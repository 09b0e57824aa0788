"""Locks of run folders: one process at a time trains in a folder, whichever command started it.

The system releases a lock when its process ends, however it ends. On NFS they hold between machines if the server is
NFSv4, or NFSv3 with its lock service; a mount with ``nolock`` or ``local_lock=all`` keeps them on one machine. On a
file system without locks, lgx warns and continues without locks.
"""

import errno
import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from lgx.errors import UserError
from lgx.host.launcher import job_rank


@contextmanager
def locked(folder: str | Path, wait: bool = False) -> Iterator[bool]:
    """Hold the lock of a run folder, a file beside it. A process that holds the lock may take it again.

    Args:
        folder: The run's folder, which need not exist.
        wait: Whether to wait until another process releases the lock.

    Yields:
        Whether this process holds the lock; False if another process does.
    """
    path = _lock_file(folder)
    lock = FileLock(path, is_singleton=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        yield False
        return
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
            reason = f"cannot write {path}: {error.strerror}"
            raise UserError(f"{reason}; choose a writable place for the runs") from error
        print(f"{path}: this file system has no locks ({error.strerror}); start no run twice", file=sys.stderr)
    try:
        yield True
    finally:
        lock.release()


@contextmanager
def run_lock(folder: str | Path) -> Iterator[None]:
    """Hold the lock of a run folder; refuse if another process holds it.

    If the folder does not exist in the end, its lock and the folders that were made for the lock are removed.

    Args:
        folder: The run's folder, which need not exist.
    """
    path = _lock_file(folder)
    made = [parent for parent in path.parents if not parent.exists()]
    with locked(folder) as is_held:
        if not is_held:
            raise UserError(f"{folder}: another process trains this run; wait until it ends, or give another --name")
        try:
            yield
        finally:
            if made and not os.path.lexists(folder):
                path.unlink(missing_ok=True)
                with suppress(OSError):  # another run has begun in one of them
                    for parent in made:
                        parent.rmdir()


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Wait until no other process changes the files of a folder, and keep others waiting in the block.

    The folder itself is locked, because a file for the lock would stay in folders of data and tables.

    Args:
        folder: The folder; it is made if it does not exist.
    """
    with suppress(OSError):  # writing the file will report the error
        folder.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _lock_file(folder: str | Path) -> Path:
    """Every process of a run that SLURM starts in several processes has its own lock."""
    folder = Path(folder)
    rank = job_rank()
    return folder.parent / (f".{folder.name}.rank{rank}.lock" if rank else f".{folder.name}.lock")
