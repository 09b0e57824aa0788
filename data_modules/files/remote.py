"""Files behind a URL, in a bucket or on a web server, through the file systems of fsspec."""

import hashlib
import io
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from fsspec.core import url_to_fs

from data_modules.files.errors import DataError
from lgx.errors import UserError
from lgx.host.cache import make_room
from lgx.host.files import atomic_path
from lgx.host.safety import error_line

T = TypeVar("T")

WAITS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each further try; afterwards the run ends."""
BLOCK = 2**24
"""Bytes of one request."""

_TAGS = ("ETag", "etag", "md5Hash", "content_md5")
"""What file systems call a value that changes with the content. Times differ between listings and single files."""
_REMEDY = "write the shards to another folder, and start anew from there"


class MissingDataError(DataError):
    """There is no such file."""


@dataclass(frozen=True)
class Cache:
    """A local folder, of this class alone, that keeps the last used files, at most ``limit`` bytes together."""

    folder: Path
    limit: int


@dataclass(frozen=True)
class RemotePath:
    """A file or folder behind a URL, with the part of pathlib's interface that shards need.

    ``cache`` keeps shards that were read; without one they are read anew each time.
    """

    url: str
    cache: Cache | None = None

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str | Path) -> "RemotePath":
        return replace(self, url=f"{self.url.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return self.url.rstrip("/").rsplit("/", 1)[-1]

    def with_name(self, name: str) -> "RemotePath":
        """The file or folder of another name beside it."""
        return replace(self, url=f"{self.url.rstrip('/').rpartition('/')[0]}/{name}")

    def exists(self) -> bool:
        """Whether there is such a file."""
        with suppress(MissingDataError):
            return bool(self._tried(lambda system, path: system.info(path)))
        return False

    def read_bytes(self) -> bytes:
        """All bytes of a small file."""
        return self._tried(lambda system, path: bytes(system.cat_file(path)))

    def states(self) -> dict[str, tuple[int | None, str]]:
        """Name -> size and tag of the files of a folder; empty if its file system or its rights list none."""
        if self.url.startswith("http"):  # web servers list links at best
            return {}
        found = {}
        with suppress(DataError):
            for info in self._tried(lambda system, path: system.ls(path, detail=True)):
                found[RemotePath(info["name"]).name] = _state(info)
        return found

    def check(self, size: int | None, tag: str) -> tuple[int, str]:
        """Size and tag of a file, which is refused if it does not have those (None and empty: unknown)."""
        found, now = self._tried(lambda system, path: _state(system.info(path)))
        if found is None:
            raise DataError(f"shard {self}: the server does not state its size; use another one")
        if size not in (None, found):
            raise DataError(f"shard {self} has {found:,} bytes instead of {size:,}; {_REMEDY}")
        if tag and now and tag != now:
            raise DataError(f"shard {self} changed while this run read it; {_REMEDY}")
        return found, now

    def open(self, size: int | None, sha256: str, tag: str) -> BinaryIO:
        """Open a file of this size, checksum and tag (None and empty: unknown); reading refuses other bytes."""
        if self.cache is None:
            return io.BufferedReader(_Blocks(self, size, sha256, tag), 2**16)
        place = self.cache.folder / f"{hashlib.sha256(sha256.encode()).hexdigest()}.tar"  # an index may say anything
        with suppress(FileNotFoundError):
            kept = place.open("rb")  # an open file remains readable if another process evicts it
            if size in (None, os.fstat(kept.fileno()).st_size):
                os.utime(place)
                return kept
            kept.close()
        source = _Blocks(self, size, sha256, tag)
        if source.size > self.cache.limit:
            raise DataError(f"data.cache_dir_gib: is less than the {source.size:,} bytes of shard {self}; raise it")
        try:
            make_room(place, source.size, self.cache.limit)
            with atomic_path(place) as temporary:
                with temporary.open("wb") as target:
                    shutil.copyfileobj(source, target, 2**20)
                return temporary.open("rb")
        except DataError:
            raise
        except (OSError, UserError) as error:
            raise DataError(f"data.cache_dir {place.parent}: {error}") from error

    @contextmanager
    def written(self) -> Iterator[Path]:
        """Yield a local file to write; it is uploaded if the block succeeds, else nothing changes."""
        with tempfile.TemporaryDirectory() as folder:
            yield (temporary := Path(folder) / self.name)
            self._tried(lambda system, path: system.put_file(str(temporary), path))

    def _tried(self, act: Callable[[Any, str], T]) -> T:
        """Call ``act`` with the file system and the path, again after failures that may pass."""
        waits = iter(WAITS)
        while True:
            try:
                # Asked for each time: a file system does not survive the fork of a loader process.
                return act(*url_to_fs(self.url, use_listings_cache=False))
            except (UserError, MemoryError):
                raise
            except Exception as error:
                # fsspec calls every failure of a web server a missing file.
                is_hidden = isinstance(error, FileNotFoundError) and self.url.startswith("http")
                cause = error.__cause__ if is_hidden and isinstance(error.__cause__, Exception) else error
                reason, is_final = _reason(cause)
                if reason is None:
                    raise MissingDataError(f"{self}: no such file, folder or bucket (404)") from error
                if is_final or (wait := next(waits, None)) is None:
                    tries = "" if is_final else f"; tried {len(WAITS) + 1} times"
                    raise DataError(f"{self}: {reason}{tries}") from error
            time.sleep(wait)


Place = Path | RemotePath


def place_of(place: str | Place, cache: Cache | None = None) -> Place:
    """The path of a local folder, or what stands for one behind a URL."""
    if isinstance(place, RemotePath):
        return place
    return RemotePath(str(place), cache) if "://" in str(place) else Path(place)


def _state(info: dict[str, Any]) -> tuple[int | None, str]:
    """Size and tag of a file, from what its file system says of it."""
    return info.get("size"), next((str(info[tag]) for tag in _TAGS if info.get(tag)), "")


def _reason(error: Exception) -> tuple[str | None, bool]:
    """Why a request failed (None: there is nothing), and whether it would fail again."""
    status = getattr(error, "status", None)
    if isinstance(error, FileNotFoundError) or status == 404:
        return None, True
    if isinstance(error, ImportError):
        return f"{error}; pip install 'lgx[cloud]' brings s3fs", True
    if isinstance(error, PermissionError) or status in (401, 403) or "Credentials" in type(error).__name__:
        return f"permission is missing ({error_line(error)})", True
    if isinstance(error, TimeoutError):
        return f"no answer in time ({error_line(error)})", False
    return error_line(error), isinstance(error, ValueError | NotImplementedError)


class _Blocks(io.RawIOBase):
    """A remote file that is read in blocks, in order; its checksum is compared when the last one is read."""

    def __init__(self, path: RemotePath, size: int | None, sha256: str, tag: str) -> None:
        super().__init__()
        self.path, self._sha256 = path, sha256
        self.size, self._tag = path.check(size, tag)
        self._digest, self._digested = hashlib.sha256(), 0
        self._block, self._start, self._position = b"", -1, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:
        if self._position >= self.size:
            return 0
        if (start := self._position // BLOCK * BLOCK) != self._start:
            self._load(start)
        part = memoryview(self._block)[self._position - start :][: len(buffer)]
        buffer[: len(part)] = part
        self._position += len(part)
        return len(part)

    def _load(self, start: int) -> None:
        wanted = min(BLOCK, self.size - start)

        def fetch(system: Any, path: str) -> bytes:
            data = bytes(system.cat_file(path, start=start, end=start + wanted))
            if len(data) > wanted:
                raise ValueError("the server sends whole files, not the parts that are asked for; use another one")
            if len(data) < wanted:
                raise ConnectionError(f"{len(data):,} of {wanted:,} bytes arrived")
            return data

        self._block, self._start = self.path._tried(fetch), start
        self.path.check(self.size, self._tag)  # after the request: so the block is of the file that was opened
        if start == self._digested:
            self._digest.update(self._block)
            self._digested += wanted
            if self._digested == self.size and self._digest.hexdigest() != self._sha256:
                raise DataError(f"shard {self.path} does not have the checksum of its index; {_REMEDY}")
