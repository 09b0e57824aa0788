"""Decoded pixels of a split, kept in a file that processes and runs share."""

import errno
import hashlib
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import PIL
from numpy.typing import NDArray

from data_modules.images import ImageFiles, LabeledImages
from lgx.host.cache import cache_root, make_room
from lgx.host.failures import os_reason

_VERSION = 1


def cache_folder() -> Path:
    """Folder of the caches: ``pixels`` below :func:`~lgx.host.cache.cache_root`."""
    return cache_root() / "pixels"


class PixelCache:
    """The pixels of the images of a split, as far as they were decoded before.

    The file is mapped into memory: processes share it, and the operating system takes the memory back when it needs it.
    Each image has a checksum, so that what a crash left behind is decoded again. Without a place for the file (no
    permission, no space) nothing is kept.

    Args:
        count: Number of images, N.
        shape: Shape of an image, (C, H, W).
        identity: What identifies the images and how they are decoded.
    """

    def __init__(self, count: int, shape: tuple[int, int, int], identity: Iterable[bytes]) -> None:
        digest = hashlib.sha256(f"{_VERSION} {PIL.__version__} {count} {shape}".encode())
        for part in identity:
            digest.update(part)
        self.count, self.shape = count, shape
        self.path = cache_folder() / f"{digest.hexdigest()[:32]}.pixels"
        self._failure: str | None = None  # not opened yet
        self._reset()

    @property
    def num_bytes(self) -> int:
        """Size of the file."""
        return self.count * (int(np.prod(self.shape)) + 4)

    def open(self) -> str:
        """Make the file, unless it is there already.

        Returns:
            Why nothing can be kept; empty if it can.
        """
        if self._failure is None:
            self._failure = ""
            try:
                if not self.path.exists() or self.path.stat().st_size != self.num_bytes:
                    self._create()
                self._map()
            except OSError as error:
                self._reset()
                self._failure = os_reason(error, self.path)
        return self._failure

    def read(self, index: int, out: NDArray[np.uint8]) -> bool:
        """Copy the pixels of an image, (C, H, W), to ``out``; False if they are not known."""
        self.open()
        if self._pixels is None or self._checksums is None:
            return False
        out[...] = self._pixels[index]
        if not self._known[index]:
            self._known[index] = self._checksums[index] == _checksum(out)
        return bool(self._known[index])

    def write(self, index: int, pixels: NDArray[np.uint8]) -> None:
        """Keep the pixels of an image, (C, H, W)."""
        if self._pixels is not None and self._checksums is not None and self._pixels.flags.writeable:
            self._pixels[index] = pixels
            self._checksums[index] = _checksum(pixels)
            self._known[index] = True

    def __getstate__(self) -> dict[str, Any]:
        """Without the mapped file, which each process opens itself."""
        return {"count": self.count, "shape": self.shape, "path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _failure=None)
        self._reset()

    def _reset(self) -> None:
        self._pixels: NDArray[np.uint8] | None = None
        self._checksums: NDArray[np.uint32] | None = None
        self._known: NDArray[np.bool_] = np.zeros(0, bool)

    def _map(self) -> None:
        mode: Literal["r", "r+"] = "r+" if os.access(self.path, os.W_OK) else "r"
        self._checksums = np.memmap(self.path, np.uint32, mode, 0, (self.count,))
        self._pixels = np.memmap(self.path, np.uint8, mode, 4 * self.count, (self.count, *self.shape))
        self._known = np.zeros(self.count, bool)
        with suppress(OSError):
            os.utime(self.path)  # says that it was used

    def _create(self) -> None:
        folder = self.path.parent
        folder.mkdir(parents=True, exist_ok=True)
        if 2 * self.num_bytes > shutil.disk_usage(folder).free:
            raise OSError(errno.ENOSPC, "the pixels would take more than half of the free space")
        make_room(folder, "pixels", self.num_bytes)
        handle, temporary = tempfile.mkstemp(".tmp", dir=folder)
        try:
            # The space is taken now: writing to a mapped file on a full disk would kill the process.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(handle, 0, self.num_bytes)
            else:
                for start in range(0, self.num_bytes, 2**20):
                    os.write(handle, bytes(min(2**20, self.num_bytes - start)))
            if self.path.exists() and self.path.stat().st_size != self.num_bytes:
                self.path.unlink()
            try:
                os.link(temporary, self.path)  # unlike a renaming, it fails if another process made it meanwhile
            except FileExistsError:
                pass
            except OSError:  # a file system without hard links
                os.replace(temporary, self.path)
        finally:
            os.close(handle)
            Path(temporary).unlink(missing_ok=True)


def identity(images: Any, folder: Path) -> Iterable[bytes] | None:
    """What identifies the images of a split: names, sizes and times of files, and positions in them.

    Args:
        images: The images, as a data module holds them.
        folder: Folder of the set, whose files are compared where ``images`` does not name its own.

    Returns:
        None if the images do not come from files.
    """
    if isinstance(images, ImageFiles):
        paths = [images.path(index) for index in range(len(images))]
        return [os.fsencode(images.folder.resolve()), *(_stamp(path) for path in paths)]
    if isinstance(images, LabeledImages) and type(images) is LabeledImages:
        source = identity(images.source, folder)
        return None if source is None else [images.indices.tobytes(), *source]
    paths = sorted(_files(folder))
    return [os.fsencode(folder.resolve()), *(_stamp(path) for path in paths)] if paths else None


def _files(folder: Path) -> Iterator[Path]:
    """The files in a folder and in all folders below it, also behind links."""
    seen = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:  # a link to a folder above
            folders.clear()
            continue
        seen.add(real)
        yield from (Path(place, name) for name in names)


def _stamp(path: Path) -> bytes:
    try:
        state = path.stat()
    except OSError:  # reading it will say what is wrong
        return os.fsencode(path) + b" absent\n"
    return os.fsencode(path) + f" {state.st_size} {state.st_mtime_ns}\n".encode()


def _checksum(pixels: NDArray[np.uint8]) -> int:
    """Checksum of an image; never 0, which stands for an image that was not decoded."""
    return zlib.crc32(pixels.data) or 1
