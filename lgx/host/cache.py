"""What lgx computed before and may compute again: files, and facts about its own code."""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from lgx.errors import UserError
from lgx.host.files import atomic_path

_MOST = 16 * 2**30
"""Bytes of all files of one kind; those that were used least recently make room for new ones."""

_PACKAGES = ("lgx", "data_modules")


def cache_root() -> Path:
    """``$LGX_CACHE``, else ``lgx`` in the user's cache folder; of a user without a home in the temporary folder."""
    if folder := os.environ.get("LGX_CACHE"):
        return Path(folder)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(tempfile.gettempdir() if home.startswith("~") else home) / "lgx"


def make_room(folder: Path, suffix: str, needed: int) -> None:
    """Remove the files of a kind that were used least recently, until ``needed`` more bytes are within the limit.

    Temporary files that killed processes left are removed after a day.

    Args:
        folder: Folder of the files.
        suffix: How their names end, without the dot.
        needed: Bytes of a new file.
    """
    for path in folder.glob("*.tmp"):
        if time.time() - path.stat().st_mtime > 24 * 3600:
            path.unlink(missing_ok=True)
    files = sorted(((path.stat(), path) for path in folder.rglob(f"*.{suffix}")), key=lambda entry: entry[0].st_mtime)
    total = sum(state.st_size for state, _ in files) + needed
    for state, path in files:
        if total <= _MOST:
            break
        path.unlink(missing_ok=True)
        total -= state.st_size


def remembered(name: str, compute: Callable[[], Any]) -> Any:
    """A fact about this very code, of plain values: kept by an earlier process, or computed and kept where it can be.

    Args:
        name: Name of the fact.
        compute: Computes it.
    """
    file = cache_root() / "facts" / f"{name}-{_state()}.json"
    with suppress(OSError, ValueError):
        return json.loads(file.read_text(encoding="utf-8"))
    value = compute()
    with suppress(OSError, UserError):
        for old in file.parent.glob(f"{name}-*.json"):
            old.unlink(missing_ok=True)
        with atomic_path(file) as temporary:
            temporary.write_text(json.dumps(value), encoding="utf-8")
    return value


@cache
def _state() -> str:
    """Hash of the places, sizes and times of the code."""
    root = Path(__file__).parents[2]
    files = sorted(path for package in _PACKAGES for path in (root / package).rglob("*.py"))
    stats = [(str(path), state.st_size, state.st_mtime_ns) for path in files for state in [path.stat()]]
    return hashlib.sha256(repr(stats).encode()).hexdigest()[:16]
