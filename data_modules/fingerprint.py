"""Fingerprints of data: whether a run that is resumed reads the examples that it read before."""

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from data_modules.images import ImageFiles, LabeledImages
from data_modules.shards import ShardImages
from data_modules.streaming import StreamedShards
from data_modules.tokens import Texts

_SIZES = 2000
"""Most files of a split whose size is read: a file server needs minutes for a million of them."""
_DECODED = 16
"""Images of a split whose pixels are compared, if they are not files of their own."""


def fingerprint(examples: Any) -> str:
    """Number of the examples of a split, and a digest of what identifies them.

    The digest covers the labels and, for :class:`ImageFiles`, all names and the sizes of at most 2,000, evenly spread;
    for streamed shards, only their checksums; for texts, all tokens; for all other examples, the pixels of 16, evenly
    spread. It covers the positions of examples that are taken from image files or shards, and no masks. Two splits with
    the same digest may therefore differ in images that it does not cover.

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
        yield from (shard.sha256.encode() for shard in examples.shards)
    else:
        yield np.asarray(examples.labels, np.int64).tobytes()
        yield from _images(examples)


def _images(examples: Any) -> Iterable[bytes]:
    """Names and sizes of files, or some pixels; of a choice, its positions and then the whole source."""
    if isinstance(examples, ImageFiles):
        yield examples.names.tobytes()
        for index in _spread(len(examples), _SIZES):
            path = examples.path(index)
            # -1: a missing file gets its own message when it is read.
            yield str(path.stat().st_size if path.is_file() else -1).encode()
    elif isinstance(examples, LabeledImages) and isinstance(examples.source, ImageFiles | LabeledImages | ShardImages):
        yield examples.indices.tobytes()
        yield from _images(examples.source)
    else:
        for index in _spread(len(examples), _DECODED):
            yield examples[index][0].tobytes()


def _spread(size: int, most: int) -> list[int]:
    """At most ``most`` positions from 0 to ``size - 1``, evenly spread."""
    positions: list[int] = np.unique(np.linspace(0, size - 1, min(size, most)).astype(int)).tolist()
    return positions
