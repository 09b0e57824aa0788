"""Where the examples of a shard lie, kept on disk: reading all headers of a large set takes seconds."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data_modules.shards.index import UNKNOWN, Shard
from data_modules.splits import Indices
from lgx.host.cache import cache_root, make_room
from lgx.host.files import atomic_path

_VERSION = 2


@dataclass(frozen=True)
class ShardTable:
    """The examples of a shard.

    Attributes:
        keys: Name of each example.
        suffixes: Format of each image: ``png``, ``jpg``, ...
        offsets: Position of each image in the file, bytes.
        sizes: Size of each image, bytes.
        labels: Class index of each example.
    """

    keys: NDArray[np.str_]
    suffixes: NDArray[np.str_]
    offsets: Indices
    sizes: Indices
    labels: Indices

    @classmethod
    def of(cls, shard: Shard, samples: Iterator[dict[str, Any]]) -> "ShardTable":
        """The table of a shard; read from the cache, if the file was neither replaced nor changed since.

        Args:
            shard: The shard.
            samples: Its examples without their content; read only if the cache does not have the table.

        Raises:
            UserError: As ``samples``.
        """
        place = _place(shard)
        if (known := cls._load(place, shard)) is not None:
            return known
        rows = [(s["__key__"], *_image(s), int(s["cls"])) for s in samples]
        columns = zip(*rows, strict=True) if rows else ((), (), (), (), ())
        kinds = (np.str_, np.str_, np.int64, np.int64, np.int64)
        table = cls(*(np.asarray(column, kind) for column, kind in zip(columns, kinds, strict=True)))
        with suppress(OSError):  # without a place for it, it is read again
            place.parent.mkdir(parents=True, exist_ok=True)
            make_room(place.parent, "npz", 0)
            with atomic_path(place) as temporary, temporary.open("wb") as file:
                np.savez(file, **{field.name: getattr(table, field.name) for field in fields(cls)})
        return table

    @classmethod
    def _load(cls, place: Path, shard: Shard) -> "ShardTable | None":
        try:
            with np.load(place, allow_pickle=False) as file:
                table = cls(*(file[field.name] for field in fields(cls)))
        except (OSError, ValueError, KeyError, EOFError):
            return None
        lengths = {len(getattr(table, field.name)) for field in fields(cls)}
        ends = table.offsets + table.sizes
        fits = len(lengths) == 1 and (shard.count == UNKNOWN or lengths == {shard.count})
        fits = fits and int(ends.max(initial=0)) <= shard.path.stat().st_size
        return (
            table if fits and 0 <= table.labels.min(initial=0) <= table.labels.max(initial=0) < shard.classes else None
        )


def _image(sample: dict[str, Any]) -> tuple[str, int, int]:
    """Format, position and size of an example's image."""
    return next((suffix, *place) for suffix, place in sample.items() if isinstance(place, tuple))


def _place(shard: Shard) -> Path:
    try:
        state = shard.path.stat()
    except OSError:  # reading it will say what is wrong
        return Path(os.devnull)
    parts = (_VERSION, shard.path.resolve(), state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
    digest = hashlib.sha256(repr(parts).encode("utf-8", "surrogateescape")).hexdigest()
    return cache_root() / "shards" / f"{digest[:32]}.npz"
