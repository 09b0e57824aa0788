"""Find the sources that a configuration names, once, and say in it which version of each the run reads."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from lgx.artifacts.sources import Source, resolve, resolve_kept
from lgx.errors import UserError


@dataclass(frozen=True)
class ResolvedSources:
    """The sources of a configuration.

    Attributes:
        config: The configuration with their places, from which method and data are built; it is not saved.
        by_option: Option, e.g. ``model.ancestor`` -> source.
    """

    config: Namespace
    by_option: dict[str, Source]

    def weights(self) -> dict[str, Path]:
        """The files of weights: option -> file."""
        return {option: file for option, source in self.by_option.items() if (file := source.weights) is not None}

    def digests(self) -> dict[str, str]:
        """Digests of the files of weights: option -> SHA-256, 16 digits."""
        found = {}
        for option, file in self.weights().items():
            with file.open("rb") as content:
                found[option] = hashlib.file_digest(content, "sha256").hexdigest()[:16]
        return found


def resolve_sources(config: Namespace, download: bool = True) -> ResolvedSources:
    """Find every source below ``model``, and replace names on the hub and URLs by those of the version that is read.

    ``config.yaml``, the same-run contract, learngenes and comparisons then name the commit, or the checksum of the file
    of a URL; a run that is resumed refuses another version.

    Args:
        config: A parsed configuration of ``lgx fit``; it is changed.
        download: Whether servers may be asked; otherwise a source that is not on this machine keeps its name.

    Raises:
        UserError: If a source cannot be downloaded; the message names its option.
    """
    found: dict[str, Source] = {}
    for option, entries, key in _texts(config.model, "model"):
        try:
            found[option] = resolve(entries[key]) if download else resolve_kept(entries[key])
        except UserError as error:
            raise UserError(f"{option}: {error}") from error
        entries[key] = found[option].name
    local = config.clone()
    for option, entries, key in _texts(local.model, "model"):
        entries[key] = found[option].place
    return ResolvedSources(local, found)


def _texts(values: Any, place: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Option, mapping and key of every text of a configuration."""
    entries = vars(values) if isinstance(values, Namespace) else values
    for key, value in list(entries.items()):
        option = place if key == "init_args" else f"{place}.{key}"
        if isinstance(value, Namespace | dict):
            yield from _texts(value, option)
        elif isinstance(value, str) and key != "class_path":
            yield option, entries, key
