"""Read webdataset shards: tar files of images with their class indices."""

import os
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import webdataset as wds
from numpy.typing import NDArray

from data_modules.files.errors import DataError, decoding
from data_modules.files.remote import RemotePath
from data_modules.shards.index import UNKNOWN, Shard
from data_modules.splits import Indices
from lgx.core.progress import tracked
from lgx.core.schema import shortened
from lgx.errors import UserError
from lgx.host.cache import cached_file, make_room, stamp
from lgx.host.files import atomic_path
from lgx.host.images import SOME, ImageReader
from lgx.host.safety import error_line, parse_json

_VERSION = 3
"""Of the kept tables."""

IMAGE_KEYS = ("png", "jpg", "jpeg", "webp")

Table = NDArray[np.void]
"""Of each example of a shard: its name (``key``), ``offset`` and ``size`` of its image in bytes, and its ``label``."""


def _read_rows(shard: Shard) -> Iterator[tuple[bytes, int, int, int]]:
    """Name, position and size of the image, and label of each example of a shard, in order.

    Raises:
        UserError: If the file is missing, truncated, or holds another number of examples than the index says.
    """
    path = shard.path
    count = 0
    remedy = "write the shards again (`lgx data prepare` resumes)"
    try:
        for sample in wds.tariterators.group_by_keys(_members(shard)):
            label = _label(sample, shard.classes)
            offset, size = next(place for place in sample.values() if isinstance(place, tuple))
            count += 1
            yield os.fsencode(sample["__key__"]), offset, size, label
    except OSError as error:
        raise DataError(f"shard {path} cannot be read ({error.strerror or error}); {remedy}") from error
    except (UserError, MemoryError):
        raise
    except Exception as error:
        raise DataError(f"shard {path} is truncated or corrupted ({error_line(error)}); {remedy}") from error
    if shard.count not in (count, UNKNOWN):
        raise DataError(f"shard {path} contains {count} examples instead of {shard.count}; {remedy}")


def _label(sample: dict[str, Any], classes: int) -> int:
    """Class index of a raw sample: its ``cls``, or ``label`` in its ``json``; it must have one image."""
    place = f"shard {sample['__url__']}: example {sample['__key__']}"
    images = [key for key in IMAGE_KEYS if key in sample]
    if len(images) != 1:
        has = " and ".join(f".{key}" for key in images) or "no image"
        raise DataError(f"{place} has {has}, expected one image, {', '.join(IMAGE_KEYS)}; write it again")
    label: Any
    if "cls" in sample:
        text = sample["cls"].strip()
        label = int(text) if text.isdigit() else text
    else:
        about = parse_json(sample["json"], place, "write it again") if "json" in sample else {}
        label = about.get("label") if isinstance(about, dict) else None
    if type(label) is not int or not 0 <= label < classes:
        has = "no label" if label is None else f"the label {shortened(label)}"
        raise DataError(
            f"{place} has {has}, expected a whole number from 0 to {classes - 1:,} as .cls, or as label of .json; "
            f"write it again"
        )
    return label


def _members(shard: Shard) -> Iterator[dict[str, Any]]:
    """Positions of the images, and labels, of a tar file, in order, as webdataset groups them.

    webdataset's own reader gives no positions, and takes a truncated file for a complete one.
    """
    path = shard.path
    with shard.open() as stream, tarfile.open(fileobj=stream, mode="r:") as tar:
        for member in tar:
            key, suffix = wds.tariterators.base_plus_ext(member.name)
            suffix = suffix.lower() if suffix else ""
            if not member.isreg() or key is None or suffix not in (*IMAGE_KEYS, "cls", "json"):
                continue
            if suffix in IMAGE_KEYS:
                yield {"fname": member.name, "data": (member.offset_data, member.size), "__url__": str(path)}
            elif content := tar.extractfile(member):
                yield {"fname": member.name, "data": content.read(), "__url__": str(path)}
        # tarfile treats the end of a file, and any invalid header, as the end of the archive.
        stream.seek(tar.offset)
        end = stream.read(tarfile.BLOCKSIZE)
        if len(end) < tarfile.BLOCKSIZE or any(end):
            raise ValueError("no mark of the end of the archive after its last file")
        if any(block.strip(b"\0") for block in iter(lambda: stream.read(2**20), b"")):
            raise ValueError("further files after the end of the archive")


def read_table(shard: Shard) -> Table:
    """The table of a shard; from the cache, if the file has not changed.

    Raises:
        UserError: If the shard is missing, damaged, or holds another number of examples than the index says.
    """
    path = shard.path
    mark = shard.sha256.encode() if isinstance(path, RemotePath) else stamp(path.resolve())
    place = cached_file("shards", "npy", [str(_VERSION).encode(), mark])
    kept = _kept_table(place, shard)
    if kept is not None:
        return kept
    rows = [*_read_rows(shard)]
    longest = max((len(key) for key, *_ in rows), default=1)
    integers = [(name, np.int64) for name in ("offset", "size", "label")]
    table: Table = np.array(rows, [("key", f"S{longest}"), *integers])
    with suppress(OSError, UserError):  # without a place for it, it is read again
        make_room(place)
        with atomic_path(place) as temporary, temporary.open("wb") as file:
            np.save(file, table)
    return table


def _kept_table(place: Path, shard: Shard) -> Table | None:
    if not place.is_file():
        return None
    try:
        table: Table = np.load(place, allow_pickle=False)
        labels = table["label"]
        ends = table["offset"] + table["size"]
    except (OSError, ValueError, IndexError, EOFError):
        return None
    length = shard.path.stat().st_size if isinstance(shard.path, Path) else shard.size
    fits = shard.count in (len(table), UNKNOWN) and int(ends.max(initial=0)) <= length
    return table if fits and 0 <= labels.min(initial=0) <= labels.max(initial=0) < shard.classes else None


class ShardImages:
    """The examples of some shards, read one by one and decoded by ``reader``.

    The headers of a shard are read when one of its examples is.
    """

    reader = ImageReader()

    def __init__(self, shards: Iterable[Shard], where: str) -> None:
        self.where = where
        self.shards = list(shards)
        self.sizes = [len(shard.rows) for shard in self.shards]
        self._ends = np.cumsum(self.sizes)
        self._tables: dict[int, Table] = {}

    def __len__(self) -> int:
        return sum(self.sizes)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """Decode one example, see :class:`~lgx.host.images.ImageReader`.

        Raises:
            UserError: If its shard cannot be read, or the image cannot be decoded.
        """
        shard, row = self._row(index)
        key, _, _, label = row.item()
        data = self.image_bytes(index)
        with decoding(f"{self.where}: example {os.fsdecode(key)} of {shard.path}", "write the shards again"):
            return self.reader(data), label

    def image_bytes(self, index: int) -> bytes:
        """The bytes of an image.

        Raises:
            UserError: If its shard cannot be read.
        """
        shard, row = self._row(index)
        try:
            with shard.open() as file:
                file.seek(row["offset"])
                return file.read(row["size"])
        except OSError as error:
            raise DataError(f"shard {shard.path} cannot be read ({error.strerror or error})") from error

    @property
    def labels(self) -> "ShardLabels":
        """Class index of every example."""
        return ShardLabels(self)

    @property
    def is_remote(self) -> bool:
        """Whether shards are fetched when they are read."""
        return any(isinstance(shard.path, RemotePath) for shard in self.shards)

    def sources(self) -> Iterator[bytes]:
        """The bytes of some images: evenly spread, or the first ones if not all headers were read."""
        step = len(self) // SOME + 1 if len(self._tables) == len(self.shards) else 1
        yield from map(self.image_bytes, range(0, len(self), step))

    def identity(self) -> Iterator[bytes]:
        """What identifies the images: of local files also their times."""
        for shard in self.shards:
            yield shard.sha256.encode() + (b"" if shard.chosen is None else shard.chosen.tobytes())
            if isinstance(shard.path, Path):
                yield stamp(shard.path.resolve())

    def table(self, number: int) -> Table:
        """The rows of a shard that belong to the split.

        Raises:
            UserError: If the shard is missing, damaged, or holds another number of examples than the index says.
        """
        if number not in self._tables:
            chosen = self.shards[number].chosen
            table = read_table(self.shards[number])
            self._tables[number] = table if chosen is None else table[chosen]
        return self._tables[number]

    def _row(self, index: int) -> tuple[Shard, Any]:
        number = int(np.searchsorted(self._ends, index, side="right"))
        start = int(self._ends[number]) - self.sizes[number]
        return self.shards[number], self.table(number)[index - start]


class ShardLabels(Sequence[int]):
    """Labels of shards, which are read when they are needed; as an array, those of all shards."""

    def __init__(self, images: ShardImages) -> None:
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: Any) -> Any:
        return int(self._images._row(index)[1]["label"])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Indices:
        images = self._images
        if images.is_remote:
            raise UserError(
                f"{images.where}: the labels of shards behind a URL are not known in advance; for data.limit_train, "
                f"data.balanced and model.class_weights copy the shards to a local folder"
            )
        numbers = tracked(range(len(images.shards)), f"reading headers of {images.where}", unit="shards")
        parts = [images.table(number)["label"] for number in numbers]
        return np.concatenate([np.zeros(0, np.int64), *parts]).astype(dtype or np.int64)
