"""Files behind a URL, in a bucket or on a web server, read through the file systems of fsspec."""

import hashlib
import os
import re
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from fsspec.core import url_to_fs

from data_modules.files.errors import DataError
from lgx.errors import UserError
from lgx.host.cache import cache_root, make_room
from lgx.host.files import atomic_path
from lgx.host.locks import changing
from lgx.host.safety import error_line

T = TypeVar("T")

WAITS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each further try; afterwards the run ends."""
BLOCK = 2**24
"""Bytes of one request; the blocks of a file are requested together."""


class MissingDataError(DataError):
    """There is no such file."""


@dataclass(frozen=True)
class RemotePath:
    """A file or folder behind a URL, with the part of pathlib's interface that shards need.

    Attributes:
        url: The URL.
        limit: Largest size of all kept copies in bytes; the least recently used are removed.
    """

    url: str
    limit: int = 64 * 2**30

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

    def open(self, sha256: str, size: int) -> BinaryIO:
        """Open the local copy of a file of this checksum and size, which is fetched if the cache does not hold it.

        An open copy remains readable if another process removes it from the cache.

        Raises:
            DataError: If the file cannot be fetched or kept, or has another content.
        """
        # An index may say anything.
        place = cache_root() / "remote" / f"{hashlib.sha256(sha256.encode()).hexdigest()}.tar"
        try:
            if not has_size(place, size):
                with changing(place.parent):  # the first of several processes fetches it
                    if not has_size(place, size):
                        self._fetch(place, sha256, size)
        except DataError:
            raise
        except (OSError, UserError) as error:
            reason = getattr(error, "strerror", "") or error
            raise DataError(f"{place.parent}: {reason}; set LGX_CACHE to a folder that can be written") from error
        try:
            with suppress(PermissionError):  # another user's file
                os.utime(place)
            return place.open("rb", buffering=0)
        except FileNotFoundError:  # another process has removed it
            return self.open(sha256, size)

    def _fetch(self, place: Path, sha256: str, size: int) -> None:
        starts = range(0, size, BLOCK)
        ends = [min(start + BLOCK, size) for start in starts]

        def fetch(system: Any, path: str) -> list[bytes]:
            blocks = system.cat_ranges([path] * len(ends), [*starts], ends, on_error="raise")
            if sum(map(len, blocks)) != size:
                raise ConnectionError(f"{sum(map(len, blocks)):,} of {size:,} bytes arrived")
            return list(blocks)

        blocks = self._tried(fetch)
        digest = hashlib.sha256()
        for block in blocks:
            digest.update(block)
        if digest.hexdigest() != sha256:
            raise DataError(
                f"shard {self} does not have the checksum of its index; write the shards to another folder, and start "
                f"anew from there"
            )
        make_room(place, size, self.limit)
        with atomic_path(place) as temporary, temporary.open("wb") as file:
            file.writelines(blocks)

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
                    raise DataError(f"{self}: {without_secrets(reason)}{tries}") from error
            time.sleep(wait)


Place = Path | RemotePath


def place_of(place: str | Place) -> Place:
    """The path of a local folder, or what stands for one behind a URL.

    Raises:
        UserError: If the URL has a password or a signature, which configurations and records would keep.
    """
    if isinstance(place, RemotePath) or "://" not in str(place):
        return place if isinstance(place, RemotePath) else Path(place)
    plain = without_secrets(str(place))
    if plain != str(place):
        raise UserError(
            f"{plain}: has a user, a password or a signature, which files of a run would keep; give them to the file "
            f"system, by environment variables or in ~/.config/fsspec"
        )
    return RemotePath(str(place))


def without_secrets(text: str) -> str:
    """A text without the passwords and signatures of its URLs."""
    return re.sub(r"\?[^\s'\"]*", "", re.sub(r"://[^/@\s]+@", "://…@", text))


def has_size(path: Path, size: int) -> bool:
    """Whether there is a regular file of this size; opening a pipe would wait for a writer."""
    with suppress(OSError):
        state = path.stat()
        return stat.S_ISREG(state.st_mode) and state.st_size == size
    return False


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
