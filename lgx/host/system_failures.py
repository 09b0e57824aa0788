"""Failures of the system rather than of lgx or the user: a full disk, a full GPU, a process that was killed."""

import errno
import os
import re
import traceback
from pathlib import Path

_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Error numbers of a full disk, a full quota, and a file above the size limit."""

_PEER_LOST = "another process of this run ended; read its message, or it was killed; resume with --ckpt_path last"
WORKER_KILLED = (
    "a data loading process was killed, perhaps because the memory or the shared memory (/dev/shm) was full; lower "
    "data.num_workers or data.batch_size, then resume with --ckpt_path last"
)
_SHARED_MEMORY_FULL = (
    "the shared memory (/dev/shm) is full; lower data.num_workers or data.batch_size, or give the container more of it "
    "(docker run --shm-size), then resume with --ckpt_path last"
)
_STALLED = (
    "the data loading processes gave no batch for as long as data.worker_timeout says (lgx embed: --worker_timeout); "
    "check whether the storage answers, or raise it (0 waits for ever); a run resumes with --ckpt_path last"
)
_MEMORY_FULL = (
    "the memory of the machine is full; lower data.batch_size (and raise trainer.accumulate_grad_batches instead) or "
    "data.num_workers"
)
_GPU_FULL = "the memory of the GPU is full; lower data.batch_size, and raise trainer.accumulate_grad_batches instead"
_MESSAGES = {
    "Connection closed by peer": _PEER_LOST,
    "Connection reset by peer": _PEER_LOST,
    "Broken pipe": _PEER_LOST,
    "CUDA out of memory": _GPU_FULL,
    "unable to allocate shared memory": _SHARED_MEMORY_FULL,
    "DataLoader timed out after": _STALLED,
    "DefaultCPUAllocator": _MEMORY_FULL,
}
"""Part of the message of a RuntimeError -> message for the user. torch has no class for the errors of its processes."""


def describe(error: BaseException) -> str | None:
    """Describe a failure of the system in one sentence.

    Args:
        error: Any error that ended a command; :func:`worker_was_killed` is asked before.

    Returns:
        What failed and how to continue; None if the error is not known to be a failure of the system.
    """
    if isinstance(error, ValueError) and isinstance(error.__cause__, OSError):
        error = error.__cause__  # Lightning's logger says of every error that the value cannot be logged
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return _MEMORY_FULL
    if isinstance(error, OSError):
        return f"{f'{os.fsdecode(error.filename)}: ' if error.filename else ''}{os_reason(error)}"
    if isinstance(error, RuntimeError):
        return next((message for part, message in _MESSAGES.items() if part in str(error)), None)
    return None


def os_reason(error: OSError, path: Path | None = None) -> str:
    """The reason of the system's error; where a disk can hold no more files, the reason says so.

    Args:
        error: The error.
        path: What could not be written; by default the file that the error names.
    """
    reason, place = error.strerror or str(error), path or error.filename
    if error.errno == errno.ENOSPC and place and _lacks_inodes(Path(os.fsdecode(place))):
        reason += " (no inode is left: the disk holds as many files as it can; remove some)"
    return reason


def _lacks_inodes(path: Path) -> bool:
    try:
        disk = os.statvfs(next(place for place in (path, *path.absolute().parents) if place.exists()))
    except OSError:
        return False
    return disk.f_files > 0 == disk.f_favail


def is_full_memory(error: BaseException) -> bool:
    """Whether an error says that the memory of the machine or of a GPU is full."""
    return not isinstance(error, OSError) and describe(error) in (_MEMORY_FULL, _GPU_FULL)


def is_disk_full(error: OSError) -> bool:
    """Whether an error says that a disk or a quota is full."""
    return error.errno in _DISK_FULL


def as_os_error(error: Exception) -> OSError:
    """Convert the writing error of a library to the error of the system that caused it.

    Args:
        error: An error of safetensors, whose message quotes the system's error number, or of torch, whose zip writer
            reports only that bytes are missing.
    """
    if found := re.search(r"\(os error (\d+)\)", str(error)):
        return OSError(int(found[1]), os.strerror(int(found[1])))
    if number := next((number for number in _DISK_FULL if os.strerror(number) in str(error)), None):
        return OSError(number, os.strerror(number))
    reason = next(iter(str(error).splitlines()), type(error).__name__)[:100]
    return OSError(f"the file could not be written completely ({reason}); is the disk full?")


def worker_was_killed(error: BaseException) -> bool:
    """Whether an error, or an error that led to it, reports that a data loading process was killed.

    No single call can be guarded against this failure. PyTorch raises its error in a signal handler, wherever the
    program is at that moment: also inside code that catches every exception and raises its own. If the main process
    reads from the killed process at that moment, the error is a lost connection inside :mod:`multiprocessing` instead;
    only data loading processes exchange data with the main process in this way. The chain of errors and their
    tracebacks are therefore the only reliable signs.
    """
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        if _reports_killed_worker(link):
            return True
        seen.add(id(link))
        link = link.__cause__ or link.__context__
    return False


def _reports_killed_worker(error: BaseException) -> bool:
    if isinstance(error, RuntimeError):
        return "DataLoader worker (pid" in str(error)
    if not isinstance(error, ConnectionError | EOFError):
        return False
    modules = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(module.startswith("multiprocessing.") for module in modules)
