"""The folder of what lgx computed before and may compute again."""

import os
import tempfile
import time
from pathlib import Path

_MOST = 16 * 2**30
"""Bytes of all files of one kind; those that were used least recently make room for new ones."""


def cache_root() -> Path:
    """``$LGX_CACHE``, else ``lgx`` in the user's cache folder; of a user without a home in the temporary folder."""
    if own := os.environ.get("LGX_CACHE"):
        return Path(own)
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
