"""Read webdataset shards: tar files of images with their class indices."""

import re
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import webdataset as wds

from data_modules.files.errors import DataError, decoding
from data_modules.files.remote import RemotePath
from data_modules.shards.index import UNKNOWN, Shard
from data_modules.splits import Indices
from lgx.core.schema import shortened
from lgx.errors import UserError
from lgx.host.cache import cached_file, make_room, stamp
from lgx.host.files import atomic_path
from lgx.host.images import SOME, ImageReader
from lgx.host.safety import error_line, parse_json

_VERSION = 2
"""Of the kept tables."""

IMAGE_KEYS = ("png", "jpg", "jpeg", "webp")
_NUMBER = re.compile(rb"[0-9]{1,9}[\r\n]*")
"""A class index as text; ``int`` would also take ``1_0`` and digits of other scripts."""

Table = dict[str, Any]
"""For each example of a shard: its name, its image's format, position and size in bytes, and its class."""
_COLUMNS = {"keys": np.str_, "suffixes": np.str_, "offsets": np.int64, "sizes": np.int64, "labels": np.int64}


def read_shard(shard: Shard, contents: bool = True) -> Iterator[dict[str, Any]]:
    """Read the raw samples of a shard, in order: dictionaries of ``__key__`` and bytes per suffix.

    Without ``contents`` each image is a pair of its position in the file and its size.

    Raises:
        UserError: If the file is missing, truncated, or holds another number of samples than the index says.
    """
    path, count = shard.path, 0
    remedy = "write the shards again (`lgx data prepare` resumes)"
    try:
        for sample in wds.tariterators.group_by_keys(_members(shard, contents)):
            sample["cls"] = str(_label(sample, shard.classes)).encode()
            count += 1
            yield sample
    except OSError as error:
        raise DataError(f"shard {path} cannot be read ({error.strerror or error}); {remedy}") from error
    except (UserError, MemoryError):
        raise
    except Exception as error:
        raise DataError(f"shard {path} is truncated or corrupted ({error_line(error)}); {remedy}") from error
    if shard.count not in (count, UNKNOWN):
        raise DataError(f"shard {path} contains {count} examples instead of {shard.count}; {remedy}")


def _label(sample: dict[str, Any], classes: int) -> int:
    """Class index of a raw sample: its ``cls``, or ``label`` or ``cls`` in its ``json``; it must have one image."""
    place = f"shard {sample['__url__']}: example {sample['__key__']}"
    images = [key for key in IMAGE_KEYS if key in sample]
    if len(images) != 1:
        has = " and ".join(f".{key}" for key in images) or "no image"
        raise DataError(f"{place} has {has}, expected one image, {', '.join(IMAGE_KEYS)}; write it again")
    about = sample
    if "cls" not in sample and "json" in sample:
        about = parse_json(sample["json"], place, "write it again")
    label = next((about[key] for key in ("cls", "label") if key in about), None) if isinstance(about, dict) else None
    if isinstance(label, bytes) and _NUMBER.fullmatch(label):
        label = int(label)
    if type(label) is not int or not 0 <= label < classes:
        has = "no label" if label is None else f"the label {shortened(label)}"
        raise DataError(
            f"{place} has {has}, expected a whole number from 0 to {classes - 1:,} as .cls, or as label of .json; "
            f"write it again"
        )
    return label


def _members(shard: Shard, contents: bool) -> Iterator[dict[str, Any]]:
    """Images and labels of a tar file, in order, as webdataset groups them.

    webdataset's own reader gives no positions, and takes a truncated file for a complete one.
    """
    path = shard.path
    with _opened(shard) as stream, tarfile.open(fileobj=stream, mode="r:") as tar:
        for member in tar:
            key, suffix = wds.tariterators.base_plus_ext(member.name)
            if not member.isreg() or key is None or (suffix := suffix.lower()) not in (*IMAGE_KEYS, "cls", "json"):
                continue
            if suffix in IMAGE_KEYS and not contents:
                yield {"fname": member.name, "data": (member.offset_data, member.size), "__url__": str(path)}
            elif content := tar.extractfile(member):
                yield {"fname": member.name, "data": content.read(), "__url__": str(path)}
        # tarfile treats the end of a file, and any invalid header, as the end of the archive.
        stream.seek(tar.offset)
        if len(end := stream.read(tarfile.BLOCKSIZE)) < tarfile.BLOCKSIZE or any(end):
            raise ValueError("no mark of the end of the archive after its last file")
        # To the end of the file, where the checksum of a remote one is compared.
        if any(block.strip(b"\0") for block in iter(lambda: stream.read(2**20), b"")):
            raise ValueError("further files after the end of the archive")


def _opened(shard: Shard) -> BinaryIO:
    if isinstance(shard.path, RemotePath):
        return shard.path.open(shard.size, shard.sha256, shard.tag)
    return shard.path.open("rb")


def with_image(sample: dict[str, Any]) -> dict[str, Any]:
    """A raw sample with the bytes of its image instead of their position and size."""
    suffix = next(key for key in IMAGE_KEYS if key in sample)
    if isinstance(sample[suffix], bytes):
        return sample
    offset, size = sample[suffix]
    try:
        with open(sample["__url__"], "rb") as file:
            file.seek(offset)
            return sample | {suffix: file.read(size)}
    except OSError as error:
        raise DataError(f"shard {sample['__url__']} cannot be read ({error.strerror or error})") from error


def decode(sample: dict[str, Any], where: str, reader: ImageReader) -> tuple[Any, int]:
    """Decode one raw sample, see :class:`~lgx.host.images.ImageReader`.

    Raises:
        UserError: If it lacks an image or a class, or the image cannot be decoded.
    """
    with decoding(f"{where}: example {sample.get('__key__')} of {sample.get('__url__')}", "write the shards again"):
        return reader(next(images_in([sample]))), int(sample["cls"])


def images_in(samples: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """The bytes of the image of each raw sample that has one."""
    yield from (sample[key] for sample in samples for key in IMAGE_KEYS if key in sample)


def read_table(shard: Shard) -> Table:
    """The table of a shard; from the cache, if the file has not changed.

    Raises:
        UserError: As :func:`read_shard`.
    """
    assert isinstance(shard.path, Path)  # others are streamed
    place = cached_file("shards", "npz", [str(_VERSION).encode(), stamp(shard.path.resolve())])
    if (known := _kept_table(place, shard)) is not None:
        return known
    rows = [(s["__key__"], *_image(s), int(s["cls"])) for s in read_shard(shard, contents=False)]
    columns = zip(*rows, strict=True) if rows else [()] * len(_COLUMNS)
    table: Table = {
        name: np.asarray(column, kind) for (name, kind), column in zip(_COLUMNS.items(), columns, strict=True)
    }
    with suppress(OSError):  # without a place for it, it is read again
        make_room(place)
        with atomic_path(place) as temporary, temporary.open("wb") as file:
            np.savez(file, **table)
    return table


def _kept_table(place: Path, shard: Shard) -> Table | None:
    try:
        with np.load(place, allow_pickle=False) as file:
            table = {name: file[name] for name in _COLUMNS}
    except (OSError, ValueError, KeyError, EOFError):
        return None
    assert isinstance(shard.path, Path)
    lengths, labels = {len(column) for column in table.values()}, table["labels"]
    fits = len(lengths) == 1 and (shard.count == UNKNOWN or lengths == {shard.count})
    fits = fits and int((table["offsets"] + table["sizes"]).max(initial=0)) <= shard.path.stat().st_size
    return table if fits and 0 <= labels.min(initial=0) <= labels.max(initial=0) < shard.classes else None


def _image(sample: dict[str, Any]) -> tuple[str, int, int]:
    """Format, position and size of an example's image."""
    return next((suffix, *place) for suffix, place in sample.items() if isinstance(place, tuple))


class ShardImages:
    """All examples of some shards, read one by one and decoded by ``reader``.

    Raises:
        UserError: If a shard is missing, damaged, or holds another number of examples than the index says.
    """

    reader = ImageReader()

    def __init__(self, shards: Iterable[Shard], where: str) -> None:
        self.where, self.shards = where, list(shards)
        self.tables = [read_table(shard) for shard in self.shards]
        self.labels: Indices = np.concatenate([np.zeros(0, np.int64), *(table["labels"] for table in self.tables)])
        self._ends = np.cumsum([len(table["labels"]) for table in self.tables])

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return decode(self.sample(index), self.where, self.reader)

    def sources(self) -> Iterator[bytes]:
        """The bytes of some images, evenly spread."""
        yield from images_in(map(self.sample, range(0, len(self), len(self) // SOME + 1)))

    def sample(self, index: int) -> dict[str, Any]:
        """An example as :func:`read_shard` gives it.

        Raises:
            UserError: If its shard cannot be read any more.
        """
        number = int(np.searchsorted(self._ends, index, side="right"))
        row = index - (int(self._ends[number - 1]) if number else 0)
        key, suffix, offset, size, label = (column[row] for column in self.tables[number].values())
        about = {"__key__": str(key), "__url__": str(self.shards[number].path), "cls": str(label).encode()}
        return with_image({**about, str(suffix): (int(offset), int(size))})

    @property
    def chosen(self) -> Indices:
        """The positions of those examples that belong to the split."""
        starts = [0, *self._ends.tolist()]
        return np.array([at + row for at, s in zip(starts, self.shards, strict=False) for row in s.rows], np.int64)
