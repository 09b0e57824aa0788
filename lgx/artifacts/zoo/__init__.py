"""The learngenes that ship with lgx: one file and one card each, and an index with their checksums."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lgx.artifacts.safety import check_digest
from lgx.artifacts.source_names import LEARNGENE, ZOO
from lgx.errors import UserError

FOLDER = Path(__file__).parent
INDEX = FOLDER / "index.json"


@dataclass(frozen=True)
class ZooEntry:
    """A learngene that ships with lgx.

    Attributes:
        name: Its name; ``zoo:NAME`` is a source.
        method: The method that learned it.
        starts: The sizes of descendants that it starts, in words.
        img_size: Height and width of its images, pixels.
        data: What it was trained on, in words.
        measured: What was measured with its descendants, in words.
        size: Bytes of the file.
        sha256: Checksum of the file.
    """

    name: str
    method: str
    starts: str
    img_size: int
    data: str
    measured: str
    size: int
    sha256: str

    @property
    def path(self) -> Path:
        """Its file."""
        return FOLDER / f"{self.name}{LEARNGENE}"

    @property
    def card(self) -> Path:
        """Its card, in Markdown."""
        return FOLDER / f"{self.name}.md"


@cache
def zoo() -> dict[str, ZooEntry]:
    """All learngenes that ship with lgx, by name."""
    entries: list[dict[str, Any]] = json.loads(INDEX.read_text(encoding="utf-8"))
    return {entry["name"]: ZooEntry(**entry) for entry in entries}


def find_zoo(name: str, sha256: str | None) -> tuple[Path, str]:
    """The file of a learngene that ships with lgx, and its checksum.

    Args:
        name: Its name, without ``zoo:``.
        sha256: Its checksum; None compares it with the index.

    Raises:
        UserError: If no learngene has this name, or the file has another checksum than the index or the argument.
    """
    entry = zoo().get(name)
    if entry is None:
        raise UserError(f"{ZOO}{name[:100]}: no such learngene ships with lgx; it has {', '.join(zoo()) or 'none'}")
    return entry.path, check_digest(entry.path, sha256 or entry.sha256, f"{ZOO}{name}")
