"""Small files that take far more memory or time than their size suggests; :func:`main` reads each with a limit."""

import bz2
import io
import json
import lzma
import resource
import signal
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, PngImagePlugin

from data_modules.files.archives import check_tar, unzip
from data_modules.files.tables import read_lines
from data_modules.images.examples import ImageFiles, LabeledImages
from data_modules.sets.segmentation import MaskedImages
from data_modules.shards.index import Shard
from data_modules.shards.reading import ShardImages
from data_modules.suites.decathlon import DECATHLON
from data_modules.suites.mini_archives import EncodedImages, read_zip
from lgx.core.rows import COLUMNS, read_rows
from lgx.errors import UserError
from lgx.host.safety import read_json

MEMORY, SECONDS = 2**30, 30
"""Bytes of address space above those of this process before it reads, and seconds, that a reader may take."""

Reader = Callable[[Path], Any]


def repeated(unit: bytes, times: int) -> bytes:
    """A gzip file of ``unit`` many times, made in the time of one."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(unit) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + packed * times + b"\x03\0" + bytes(8)


def header(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, old: bool = True) -> bytearray:
    """A header of a tar file."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return bytearray(info.tobuf(tarfile.GNU_FORMAT if old else tarfile.USTAR_FORMAT))


def checksummed(block: bytearray) -> bytes:
    """A header with a correct checksum."""
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return bytes(block)


def tar_of(kind: bytes, size: int = 2**30) -> bytes:
    """An archive of a megabyte with one header of a gigabyte."""
    unit = 2**20
    packed = repeated(b"a" * unit, size // unit)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(bytes(header("././@LongLink", kind, size))) + packer.flush(zlib.Z_FULL_FLUSH)
    return packed[:10] + first + packed[10:]


@cache
def many_headers() -> bytes:
    """Names of 200 kB each, every one of which stays in memory."""
    long = b"train/" + b"a" * 200_000 + b"\0"
    padded = long + bytes(-len(long) % 512)
    return repeated(bytes(header("././@LongLink", tarfile.GNUTYPE_LONGNAME, len(long))) + padded + header("a"), 10_000)


def old_holes() -> bytes:
    """A sparse file in GNU's old format whose list of holes has gigabytes."""
    first = header("a.png", tarfile.GNUTYPE_SPARSE)
    first[482:483] = b"\1"
    more = bytearray(b"00000000001\0" * 42 + bytes(8))
    more[504:505] = b"\1"
    packed = repeated(bytes(more) * 2048, 4096)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packed[:10] + packer.compress(checksummed(first)) + packer.flush(zlib.Z_FULL_FLUSH) + packed[10:]


def new_holes() -> bytes:
    """A sparse file in GNU's newest format whose list of holes has gigabytes."""
    facts = (
        b"".join(f"{len(text) + 4} {text}\n".encode() for text in ("GNU.sparse.major=1", "GNU.sparse.minor=0"))
        + b"26 GNU.sparse.realsize=10\n"
    )
    start = bytes(header("pax", tarfile.XHDTYPE, len(facts), old=False)) + facts + bytes(-len(facts) % 512)
    start += header("a.png", size=2**30) + b"1000000000\n"
    packed = repeated(b"0\n" * 2**19, 2048)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packed[:10] + packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH) + packed[10:]


def plain_tar(name: str, size: int) -> bytes:
    """An archive with one member that claims a size."""
    return bytes(header(name, size=size)) + bytes(1024)


@cache
def png(size: tuple[int, int], text: bool = False) -> bytes:
    """A picture of one color; ``text`` adds a comment of 100 MB."""
    buffer, comments = io.BytesIO(), PngImagePlugin.PngInfo()
    if text:
        comments.add_text("a", "a" * (100 * 2**20), zip=True)
    Image.new("1", size).save(buffer, "png", pnginfo=comments, compress_level=1)
    return buffer.getvalue()


def zip_of(path: Path, method: int, size: int = 2**25) -> None:
    """A zip file whose member is deflated or packed with another method."""
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("train/a/1.png", bytes(size))


def in_file(content: Callable[[], bytes] | str | bytes, name: str, read: Reader) -> Reader:
    """A reader of a file with this content; a function makes it when it is read."""

    def run(folder: Path) -> Any:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        made = content() if callable(content) else content
        path.write_bytes(made.encode() if isinstance(made, str) else made)
        return read(path)

    return run


def written(name: str, write: Callable[[Path], Any], read: Reader) -> Reader:
    """A reader of a file that ``write`` writes."""

    def run(folder: Path) -> Any:
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / name)
        return read(folder / name)

    return run


def masked(path: Path) -> Any:
    return MaskedImages([(path, path)], {0: 0}, "x")[0]


def torchvision(path: Path) -> Any:
    class Source:
        def __getitem__(self, index: int) -> Any:
            return Image.open(path).convert("RGB"), 0

    return LabeledImages(Source(), [0], "x")[0]


def in_shard(path: Path) -> Any:
    shard = path.with_suffix(".tar")
    with tarfile.open(shard, "w") as tar:
        tar.add(path, "a.png")
        info = tarfile.TarInfo("a.cls")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"0"))
    return ShardImages([Shard(shard, 1, "")], "x")[0]


def devkit(path: Path) -> Any:
    return DECATHLON.prepare(path.parent / "data", "aircraft", path.parent)


def shard(path: Path) -> Any:
    return ShardImages([Shard(path, 1, "")], "x")


BIG = (13_300, 13_300)
DEEP = "[" * 10**6
HOLES = {"GNU's old": old_holes, "GNU's new": new_holes}
HEADERS = {
    "name": tarfile.GNUTYPE_LONGNAME, "link": tarfile.GNUTYPE_LONGLINK,
    "pax": tarfile.XHDTYPE, "global pax": tarfile.XGLTYPE, "Solaris pax": tarfile.SOLARIS_XHDTYPE,
}  # fmt: skip
PICTURES: dict[str, Reader] = {
    "an image": lambda path: ImageFiles(path.parent, [path.name], [0], "x")[0],
    "a mask": masked,
    "an image of torchvision": torchvision,
    "an image in a zip file": lambda path: EncodedImages([(path, path.read_bytes())], np.zeros(1, np.int64), "x")[0],
    "an image in a shard": in_shard,
}

BOMBS: dict[str, Reader] = {
    "JSON: depth": in_file(DEEP, "a.json", lambda path: read_json(path, "x")),
    "results: a line": in_file(",".join(COLUMNS) + "\n" + "a" * 2**25, "results.csv", read_rows),
    **{f"tar: {name} header": in_file(partial(tar_of, kind), "a.tgz", check_tar) for name, kind in HEADERS.items()},
    **{f"tar: {name} holes": in_file(make, "a.tgz", check_tar) for name, make in HOLES.items()},
    "tar: many headers": in_file(many_headers, "a.tgz", check_tar),
    "tar: content": in_file(lambda: tar_of(tarfile.REGTYPE), "a.tgz", check_tar),
    "tar: bzip2": in_file(lambda: bz2.compress(bytes(2**25)) * 20, "a.tgz", check_tar),
    "tar: xz": in_file(lambda: lzma.compress(bytes(2**25)) * 20, "a.tgz", check_tar),
    "tar: a member": in_file(plain_tar("a", 2**40), "a.tar", check_tar),
    "devkit: a header": in_file(partial(tar_of, tarfile.GNUTYPE_LONGNAME), "decathlon-1.0-devkit.tar.gz", devkit),
    "devkit: many headers": in_file(many_headers, "decathlon-1.0-devkit.tar.gz", devkit),
    "shard: a header": in_file(
        bytes(header("././@LongLink", tarfile.GNUTYPE_LONGNAME, 2**26)) + b"a" * 2**26, "a.tar", shard
    ),
    "shard: a hole": in_file(checksummed(header("a.png", tarfile.GNUTYPE_SPARSE)) + bytes(1024), "a.tar", shard),
    "shard: a member": in_file(plain_tar("a.png", 2**40), "a.tar", shard),
    "zip: deflated": written(
        "a.zip", lambda path: zip_of(path, zipfile.ZIP_DEFLATED, 2**28), lambda path: unzip([path], path.parent / "out")
    ),
    "zip: bzip2": written(
        "a.zip", lambda path: zip_of(path, zipfile.ZIP_BZIP2), lambda path: unzip([path], path.parent / "out")
    ),
    "zip in memory: deflated": written("a.zip", lambda path: zip_of(path, zipfile.ZIP_DEFLATED, 2**28), read_zip),
    "zip in memory: lzma": written("a.zip", lambda path: zip_of(path, zipfile.ZIP_LZMA), read_zip),
    **{name: in_file(partial(png, BIG), "a.png", read) for name, read in PICTURES.items()},
    "an image's comment": in_file(partial(png, (8, 8), text=True), "a.png", PICTURES["an image"]),
    "table: a line": in_file("a,b\n" + "a" * 2**21, "a.csv", read_lines),
    "table: many lines": in_file("a,b\n" + "a,1\n" * 2_000_001, "a.csv", read_lines),
}  # fmt: skip
"""What is too large -> writes it to a folder and reads it."""


def attempt(read: Reader, folder: Path) -> tuple[str, str, float]:
    """Class and message of the error with which a reader ends, and its seconds."""
    signal.alarm(SECONDS)
    started = time.perf_counter()
    try:
        read(folder)
        ended = "nothing", ""
    except Exception as error:
        ended = "UserError" if isinstance(error, UserError) else type(error).__name__, str(error)
    finally:
        signal.alarm(0)
    return *ended, time.perf_counter() - started


def _expire(number: int, frame: Any) -> None:
    raise TimeoutError(f"more than {SECONDS} seconds")


def main(folder: Path) -> None:
    """Read every bomb; write name -> (class of the error, message, seconds) to ``found.json``."""
    signal.signal(signal.SIGALRM, _expire)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    found = {name: attempt(read, folder / str(k)) for k, (name, read) in enumerate(BOMBS.items())}
    Path("found.json").write_text(json.dumps(found))
