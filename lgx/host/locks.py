"""Locks of run folders: one process at a time trains in a folder, whichever command started it.

The locks are ``flock`` locks, which the system releases when their process ends, however it ends. On NFS they hold
between machines if the server is NFSv4, or NFSv3 with its lock service; a mount with ``nolock`` or ``local_lock=all``
keeps them on one machine. On a file system without locks, lgx warns once and continues without locks.
"""

import errno
import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from lgx.errors import UserError
from lgx.host.launcher import job_rank

INHERITED = "LGX_RUN_LOCK"
"""Environment variable with the file descriptor of the lock that a sweep holds for the run that it starts."""


@contextmanager
def locked(folder: str | Path) -> Iterator[int | None]:
    """Hold the lock of a run folder.

    The lock is a file beside the folder. The system releases it when the last process that inherited it ends. A lock in
    :data:`INHERITED` is already held.

    Args:
        folder: The run's folder, which need not exist.

    Yields:
        The file descriptor of the lock, which a child process may inherit; None if another process holds the lock.
    """
    path, is_current = _lock_file(folder), False
    while not is_current:  # its holder may remove the file after this process opened it
        with _opened(path) as file:
            taken = _is_inherited(file.fileno()) or _take(file, path)
            if is_current := not taken or _is_at(file, path):
                yield file.fileno() if taken else None


@contextmanager
def run_lock(folder: str | Path) -> Iterator[None]:
    """Hold the lock of a run folder; refuse if another process holds it.

    If the folder does not exist in the end, its lock and the folders that were made for the lock are removed.

    Args:
        folder: The run's folder, which need not exist.
    """
    path, folder = _lock_file(folder), Path(folder)
    made = [parent for parent in path.parents if not parent.exists()]
    with locked(folder) as lock:
        if lock is None:
            raise UserError(f"{folder}: another process trains this run; wait until it ends, or give another --name")
        try:
            yield
        finally:
            if made and not os.path.lexists(folder) and INHERITED not in os.environ:
                path.unlink(missing_ok=True)
                with suppress(OSError):  # another run has begun in one of them
                    for parent in made:
                        parent.rmdir()


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Wait until no other process changes the files of a folder, and keep others waiting in the block.

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


def is_locked(folder: str | Path) -> bool:
    """Whether another process holds the lock of a run folder."""
    if not _lock_file(folder).exists():
        return False
    with locked(folder) as lock:
        return lock is None


def _opened(path: Path) -> IO[bytes]:
    """Open a lock file, and make it and its folders if necessary."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("ab")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; choose a writable place for the runs") from error


def _take(file: IO[bytes], path: Path) -> bool:
    """Try to take the lock of an open file; return whether this process now holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        print(f"{path}: this file system has no locks ({error.strerror}); start no run twice", file=sys.stderr)
    return True


def _is_at(file: IO[bytes], path: Path) -> bool:
    """Whether an open file is still the file at a path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:
        return False


def _is_inherited(descriptor: int) -> bool:
    """Whether a sweep holds this lock for this run."""
    inherited = os.environ.get(INHERITED, "")
    try:
        return inherited.isdecimal() and os.path.sameopenfile(int(inherited), descriptor)
    except OSError:  # the descriptor was not inherited, or belongs to another file
        return False


def _lock_file(folder: str | Path) -> Path:
    """Every process of a run that SLURM starts in several processes has its own lock."""
    folder, rank = Path(folder), job_rank()
    return folder.parent / (f".{folder.name}.rank{rank}.lock" if rank else f".{folder.name}.lock")
