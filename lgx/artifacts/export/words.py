"""The files that stand beside a network of texts: its tokenizer, and how texts are generated."""

import shutil
from pathlib import Path
from typing import Any

import yaml

from lgx.artifacts.source_names import OF_TEXTS, path_of

Words = list[Path] | Any | None
"""Files to copy, or a tokenizer of transformers to save."""

_DEPTH = 3
"""Folders between a run's configuration and its files."""


def words_of(place: str) -> list[Path]:
    """The files of a source: those of a model folder, or of the tokenizer that a run was trained with.

    Args:
        place: The place of a :class:`~lgx.artifacts.sources.Source`.
    """
    path = Path(path_of(place))
    if files := files_in(path):
        return files
    config = next(
        (each for folder in [path, *path.parents][:_DEPTH] if (each := folder / "config.yaml").is_file()), None
    )
    options = yaml.safe_load(config.read_text(encoding="utf-8")) if config else None
    data = options.get("data") if isinstance(options, dict) else None
    tokenizer = (data.get("init_args") or {}).get("tokenizer") if isinstance(data, dict) else None
    return files_in(Path(tokenizer)) if isinstance(tokenizer, str) else []


def files_in(folder: Path) -> list[Path]:
    """The files of a folder."""
    return [folder / name for name in OF_TEXTS if (folder / name).is_file()]


def write_words(folder: Path, words: Words) -> None:
    """Copy files byte for byte, or save a tokenizer."""
    if isinstance(words, list):
        for path in words:
            shutil.copyfile(path, folder / path.name)
    elif words is not None:
        words.save_pretrained(folder)
