"""Fingerprints of data, to check that a resumed run reads the same examples."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

_FILES = 2000
"""Largest number of compared files of a split: a file server needs minutes for a million."""
_PART = 2**15
"""Bytes at the beginning and at the end of a file that are compared: all of most images."""


def fingerprint(count: int, content: Iterable[bytes], unit: str = "examples") -> str:
    """Number of examples of a split, and a digest of their identity."""
    digest = hashlib.sha256()
    for part in content:
        digest.update(part)
    return f"{count:,} {unit}, {digest.hexdigest()[:12]}"


def fingerprint_of_names(names: Iterable[str]) -> str:
    """Number of names, and a digest of them in their order."""
    listed = list(names)
    return fingerprint(len(listed), [chr(0).join(listed).encode()], "names")


def content_of_files(size: int, path_of: Callable[[int], Path]) -> Iterator[bytes]:
    """Size, beginning and end (32 KiB each) of at most 2,000 of ``size`` files, evenly spread.

    A missing file is ignored here: reading it reports the error.
    """
    for path in map(path_of, spread(size, _FILES)):
        if path.is_file():
            with path.open("rb") as file:
                beginning = file.read(_PART)
                length = file.seek(0, os.SEEK_END)
                file.seek(max(len(beginning), length - _PART))
                yield f"{length} ".encode() + beginning + file.read()


def spread(size: int, most: int) -> list[int]:
    """At most ``most`` evenly spread positions from 0 to ``size - 1``."""
    positions: list[int] = np.unique(np.linspace(0, size - 1, min(size, most)).astype(int)).tolist()
    return positions
