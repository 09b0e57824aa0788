"""lgx's cache: files below one folder, named by the inputs of their content."""

import errno
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

_MOST = 16 * 2**30
"""Largest size of all files of one kind, in bytes; the least recently used files are removed."""


def cache_root() -> Path:
    """``$LGX_CACHE``, else ``lgx`` in the user's cache folder; of a user without a home in the temporary folder."""
    folder = os.environ.get("LGX_CACHE")
    if folder:
        return Path(folder)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(tempfile.gettempdir() if home.startswith("~") else home) / "lgx"


def cached_file(kind: str, suffix: str, parts: Iterable[bytes | memoryview]) -> Path:
    """The place of a file: ``KIND/DIGEST.SUFFIX`` below :func:`cache_root`.

    Args:
        kind: Name of the folder of such files.
        suffix: How their names end, without the dot.
        parts: What the content depends on.
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return cache_root() / kind / f"{digest.hexdigest()[:32]}.{suffix}"


def stamp(path: Path) -> bytes:
    """Path, size, times and inode of a file, which reveal a changed or replaced file without reading it."""
    try:
        state = path.stat()
    except OSError:  # reading it will report the error
        return os.fsencode(path) + b" absent\n"
    # cp -p and rsync -t keep the time of change, but set that of the state anew; renamed files have other numbers.
    return os.fsencode(path) + f" {state.st_size} {state.st_mtime_ns} {state.st_ctime_ns} {state.st_ino}\n".encode()


def make_room(path: Path, needed: int = 0, most: int | None = None) -> None:
    """Make the folder of a file, and remove files of its kind that were used least recently, until it is in the limit.

    Temporary files that killed processes left are removed after a day.

    Args:
        path: The new file.
        needed: Its bytes.
        most: The limit in bytes; by default 16 GiB.

    Raises:
        OSError: If the folder cannot be made, or the file would take more than half of the free space.
    """
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True)
    if 2 * needed > shutil.disk_usage(folder).free:
        raise OSError(errno.ENOSPC, "it would take more than half of the free space")
    for left in folder.glob("*.tmp"):
        if time.time() - left.stat().st_mtime > 24 * 3600:
            left.unlink(missing_ok=True)
    files = sorted(((file.stat(), file) for file in folder.glob(f"*{path.suffix}")), key=lambda pair: pair[0].st_mtime)
    total = sum(state.st_size for state, _ in files) + needed
    for state, file in files:
        if total <= (_MOST if most is None else most):
            break
        file.unlink(missing_ok=True)
        total -= state.st_size
