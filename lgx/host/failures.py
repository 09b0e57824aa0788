"""Messages for failures of the system (full disk, killed process) and of other libraries."""

import errno
import os
import re
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from lgx.errors import Preempted, UserError

Kinds = type[Exception] | tuple[type[Exception], ...]
_USER_OF_URL = re.compile(r"//[^/@\s]*@")
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Error numbers of a full disk, a full quota, and a file above the size limit."""

_RESUME = "a run that has a checkpoint resumes with --ckpt_path last"
_PEER_LOST = f"another process of this run ended; read its message, or it was killed; {_RESUME}"
_WORKER_KILLED = (
    "a data loading process was killed, perhaps because the memory or the shared memory (/dev/shm) was full; lower "
    f"data.num_workers or data.batch_size; {_RESUME}"
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
    "unable to allocate shared memory": (
        "the shared memory (/dev/shm) is full; lower data.num_workers or data.batch_size, or give the container more "
        f"of it (docker run --shm-size); {_RESUME}"
    ),
    "DataLoader timed out after": (
        "the data loading processes gave no batch within data.worker_timeout; check the storage, or "
        f"raise this limit (0 sets none); {_RESUME}"
    ),
    "DefaultCPUAllocator": _MEMORY_FULL,
}
"""Part of the message of a RuntimeError -> message for the user. torch has no class for the errors of its processes."""


def describe(error: BaseException) -> str | None:
    """Describe a failure of the system in one sentence.

    Args:
        error: Any error that ended a command; it may hide that a data loading process was killed.

    Returns:
        What failed and how to continue; None if the error is not a known failure of the system.
    """
    if worker_was_killed(error):
        return _WORKER_KILLED
    if isinstance(error, ValueError) and isinstance(error.__cause__, OSError):
        error = error.__cause__  # Lightning's logger says of every error that the value cannot be logged
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return _MEMORY_FULL
    if isinstance(error, OSError):
        place = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        remedy = f"; free some space; {_RESUME}" if is_disk_full(error) else ""
        return f"{place}{error.strerror or error}{remedy}"
    if isinstance(error, RuntimeError):
        return next((message for part, message in _MESSAGES.items() if part in str(error)), None)
    return None


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


def is_full_memory(error: BaseException) -> bool:
    """Whether an error reports full memory of the machine or a GPU."""
    return not isinstance(error, OSError) and describe(error) in (_MEMORY_FULL, _GPU_FULL)


def is_disk_full(error: OSError) -> bool:
    """Whether an error reports a full disk or quota."""
    return error.errno in _DISK_FULL


def _reports_killed_worker(error: BaseException) -> bool:
    if isinstance(error, RuntimeError):
        return "DataLoader worker (pid" in str(error)
    if not isinstance(error, ConnectionError | EOFError):
        return False
    modules = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(module.startswith("multiprocessing.") for module in modules)


def reason_of(error: BaseException, longest: int = 200) -> str:
    """The first line of an error's message, or its class without a message; without passwords of URLs."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__).strip()
    return _USER_OF_URL.sub("//", line)[:longest]


@contextmanager
def foreign_errors(place: str, wrong: str, remedy: str, kinds: Kinds = Exception) -> Iterator[None]:
    """Raise a UserError for an error of another library in the block: ``place: wrong (reason); remedy``.

    Args:
        place: File, name or option that the library reads.
        wrong: What is wrong with it.
        remedy: What the user can do.
        kinds: Classes of the errors to translate. A UserError and full memory always pass.
    """
    try:
        yield
    except UserError:
        raise
    except kinds as error:
        if is_full_memory(error):
            raise
        raise UserError(f"{place}: {wrong} ({reason_of(error)}); {remedy}") from error


@contextmanager
def blame(mistake: str, *others: type[Exception]) -> Iterator[None]:
    """Attribute every error in the block to the user's input, with class and whole message of the error.

    For calls that hand the user's values to other libraries, whose errors do not name the option.

    Args:
        mistake: Start of the message: the user's input, and that it is refused.
        others: Classes of errors that pass, as a UserError, a Preempted and full memory always do.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (UserError, Preempted, *others)) or is_full_memory(error):
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise UserError(f"{mistake} ({reason})") from error


def timm_errors(name: str) -> AbstractContextManager[None]:
    """Errors of timm and the hub's client while a model is loaded: see :func:`foreign_errors`."""
    return foreign_errors(name, "timm could not load it", "without a network give a local folder")


@contextmanager
def checkpoint_errors(path: object) -> Iterator[None]:
    """Raise a UserError for an error of torch while it reads a checkpoint.

    A damaged file leads to errors of pickle, zip and torch of many kinds. Their messages explain how to load the file
    in an unsafe way, so the sentence quotes only messages of our own checks, which are ValueErrors.
    """
    try:
        yield
    except Exception as error:
        if is_full_memory(error):
            raise
        reason = reason_of(error) if type(error) is ValueError else type(error).__name__
        raise UserError(
            f"{path}: not an intact checkpoint of tensors and plain types ({reason}); it was not loaded, because "
            f"anything else could run code"
        ) from error


def write_errors(path: object, kinds: Kinds = Exception) -> AbstractContextManager[None]:
    """Errors of another library's writer: see :func:`foreign_errors`."""
    return foreign_errors(f"cannot write {path}", "the file is incomplete", "is the disk full?", kinds)


def refused_by_lightning(error: Exception) -> str | None:
    """The class of Lightning in which an error was raised, also by a library that it calls; otherwise None."""
    for frame, _ in reversed([*traceback.walk_tb(error.__traceback__)]):
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in ("lightning", "lgx", "data_modules"):
            owner = frame.f_locals.get("self")
            return ("Lightning" if owner is None else type(owner).__name__) if package == "lightning" else None
    return None
