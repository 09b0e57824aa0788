"""Fingerprints of data: whether a run that is resumed reads the examples that it read before."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from data_modules.images import ImageFiles, LabeledImages
from data_modules.shards import ShardImages
from data_modules.streaming import StreamedShards
from data_modules.tokens import Texts

_FILES = 2000
"""Most files of a split that are compared: a file server needs minutes for a million of them."""
_PART = 2**15
"""Bytes at the beginning and at the end of a file that are compared: all of most images."""
_DECODED = 16
"""Images of a split whose pixels are compared, if they are not files of their own."""


def fingerprint(examples: Any) -> str:
    """Number of the examples of a split, and a digest of what identifies them.

    The digest covers the labels and, for :class:`ImageFiles` and sets with masks, all names, and of at most 2,000
    files, evenly spread, the size and the first and last 32 KiB; for streamed shards, their checksums and which of
    their examples are chosen; for texts, all tokens; for all other examples, the pixels of 16, evenly spread. It covers
    the positions of examples that are taken from files or shards. Two splits with the same digest may therefore differ
    in what it does not cover.

    Args:
        examples: Examples of one split, as a data module holds them.
    """
    digest = hashlib.sha256()
    for part in _parts(examples):
        digest.update(part)
    return f"{len(examples):,} examples, {digest.hexdigest()[:12]}"


def fingerprint_of_names(names: Iterable[str]) -> str:
    """Number of names, and a digest of them in their order."""
    listed = list(names)
    return f"{len(listed):,} names, {hashlib.sha256(chr(0).join(listed).encode()).hexdigest()[:12]}"


def _parts(examples: Any) -> Iterable[bytes]:
    if isinstance(examples, Texts):
        yield from (examples.ids.tobytes(), examples.offsets.tobytes(), examples.labels.tobytes())
    elif isinstance(examples, StreamedShards):
        for shard in examples.shards:
            yield shard.sha256.encode() + (b"" if shard.chosen is None else shard.chosen.tobytes())
    else:
        yield np.asarray(examples.labels, np.int64).tobytes()
        yield from _images(examples)


def _images(examples: Any) -> Iterable[bytes]:
    """Names and contents of files, or some pixels; of a choice, its positions and then the whole source."""
    if isinstance(examples, ImageFiles) and examples.is_plain:
        yield examples.names.tobytes()
        yield from _contents([examples.path(index) for index in _spread(len(examples), _FILES)])
    elif isinstance(examples, LabeledImages) and (files := examples.paths()):
        yield "\n".join(path.name for path in files).encode()
        yield from _contents([files[index] for index in _spread(len(files), _FILES)])
    elif isinstance(examples, LabeledImages) and isinstance(examples.source, ImageFiles | LabeledImages | ShardImages):
        yield examples.indices.tobytes()
        yield from _images(examples.source)
    else:
        for index in _spread(len(examples), _DECODED):
            yield examples[index][0].tobytes()


def _contents(paths: Iterable[Path]) -> Iterator[bytes]:
    """Size, beginning and end of each file; of a missing one nothing, which gets its own message when it is read."""
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                beginning, size = file.read(_PART), file.seek(0, os.SEEK_END)
                file.seek(max(len(beginning), size - _PART))
                yield f"{size} ".encode() + beginning + file.read()


def _spread(size: int, most: int) -> list[int]:
    """At most ``most`` positions from 0 to ``size - 1``, evenly spread."""
    positions: list[int] = np.unique(np.linspace(0, size - 1, min(size, most)).astype(int)).tolist()
    return positions
