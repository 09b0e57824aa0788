"""Facts about lgx that take long to find out, kept on disk until lgx or another package changes."""

import hashlib
import json
import os
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

from lgx.errors import UserError
from lgx.host.cache import cache_root
from lgx.host.files import atomic_path

_PACKAGES = ("lgx", "data_modules")
_READ = ("lightning", "jsonargparse", "torchvision")
"""Distributions whose signatures and data sets the facts are about."""
_DIGITS = 16
"""Digits of the hash in a file's name."""


def recall(name: str) -> Any | None:
    """A fact that was remembered for this very code; None if there is none.

    Args:
        name: Name of the fact.
    """
    try:
        return json.loads(_file(name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def remember(name: str, value: Any) -> None:
    """Keep a fact; nothing happens where the cache cannot be written.

    Args:
        name: Name of the fact.
        value: Plain values.
    """
    with suppress(OSError, UserError):
        file = _file(name)
        for old in file.parent.glob(f"{name}-{'?' * _DIGITS}.json"):
            old.unlink(missing_ok=True)
        with atomic_path(file) as temporary:
            temporary.write_text(json.dumps(value), encoding="utf-8")


@cache
def declared_methods() -> list[str]:
    """The entry points by which other packages declare methods, as ``name=value``."""
    return sorted(f"{entry.name}={entry.value}" for entry in entry_points(group="lgx.methods"))


def _file(name: str) -> Path:
    return cache_root() / "facts" / f"{name}-{_state()}.json"


@cache
def _state() -> str:
    """Hash of the places, sizes and times of the code, of versions, and of what other packages declare."""
    root = Path(__file__).parents[2]
    files = sorted(path for package in _PACKAGES for path in (root / package).rglob("*.py"))
    stats = [(str(path), state.st_size, state.st_mtime_ns) for path in files for state in [path.stat()]]
    admitted = os.environ.get("LGX_ALLOW_IMPORTS", "")
    facts = (stats, sys.version, [version(name) for name in _READ], declared_methods(), admitted)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:_DIGITS]
