"""Files and folders by which a data set is recognized; outside ``data_modules``, whose import takes seconds."""

from collections.abc import Sequence
from pathlib import Path

Markers = Sequence[Sequence[str]]
"""Alternatives; each names files and folders that all exist if a set is there. A name that ends in / is a folder."""


def any_exist(folder: Path, markers: Markers) -> bool:
    """Whether all that one of the alternatives names exists below ``folder``."""
    return any(
        all((folder / name).is_dir() if name.endswith("/") else (folder / name).exists() for name in names)
        for names in markers
    )
