"""The files that stand beside a network of texts: its tokenizer, and how texts are generated."""

import shutil
from pathlib import Path
from typing import Any

from lgx.artifacts.source_names import OF_TEXTS

Words = list[Path] | Any | None
"""Files to copy, or a tokenizer of transformers to save."""


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
