"""Files and folders that identify a data set; outside ``data_modules``, whose import takes seconds."""

from collections.abc import Sequence
from pathlib import Path

Markers = Sequence[Sequence[str]]
"""Alternatives; each lists files and folders that all exist if the set exists. A name that ends in / is a folder."""


def any_exist(folder: Path, markers: Markers) -> bool:
    """Whether all names of one alternative exist below ``folder``."""

    def exists(name: str) -> bool:
        return (folder / name).is_dir() if name.endswith("/") else (folder / name).exists()

    return any(all(map(exists, names)) for names in markers)
