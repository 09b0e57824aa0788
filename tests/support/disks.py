"""Small file systems for tests."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(place: Path, *options: str) -> Iterator[Path]:
    """A separate file system; only root can mount one."""
    place.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", place], capture_output=True)
    if mount.returncode:
        pytest.skip("mounting a file system needs root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)
