"""Images as batches of pixels, which are kept in a file that processes and runs share, and augmented together."""

import errno
import hashlib
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import PIL
import torch
from numpy.typing import NDArray
from torch import Tensor

from data_modules.images.examples import ImageFiles, LabeledImages
from data_modules.images.transforms import CropFlip
from data_modules.loading.samplers import Key, TransformedExamples, mix_seed
from data_modules.splits import Indices
from lgx.core.eval_transforms import pixel_transform
from lgx.core.seed import seeded_rng
from lgx.core.task import Task
from lgx.host.cache import cache_root, make_room

_VERSION = 4
_OWN = 1
"""Part of the seed of a user's transforms, which must not draw the numbers of the crop."""


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
                self._failure = error.strerror or str(error)
        return self._failure

    def read(self, index: int, out: NDArray[np.uint8]) -> bool:
        """Copy the pixels of an image, (C, H, W), to ``out``; False if they are not known."""
        self.open()
        if self._images is None:
            return False
        out[...] = self._images["pixels"][index]
        if not self._known[index]:
            self._known[index] = self._images["checksum"][index] == _checksum(out)
        return bool(self._known[index])

    def write(self, index: int, pixels: NDArray[np.uint8]) -> None:
        """Keep the pixels of an image, (C, H, W)."""
        if self._images is not None and self._images.flags.writeable:
            self._images[index] = _checksum(pixels), pixels
            self._known[index] = True

    def __getstate__(self) -> dict[str, Any]:
        """Without the mapped file, which each process opens itself."""
        return {"count": self.count, "shape": self.shape, "path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _failure=None)
        self._reset()

    def _reset(self) -> None:
        self._images: NDArray[np.void] | None = None
        self._known: NDArray[np.bool_] = np.zeros(0, bool)

    def _map(self) -> None:
        mode: Literal["r", "r+"] = "r+" if os.access(self.path, os.W_OK) else "r"
        image = np.dtype([("checksum", np.uint32), ("pixels", np.uint8, self.shape)])
        self._images = np.memmap(self.path, image, mode, shape=(self.count,))
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


def identity(images: Any, folder: Path | None) -> Iterable[bytes] | None:
    """What identifies the images of a split: names, sizes, times and numbers of files, and positions in them.

    Args:
        images: The images, as a data module holds them.
        folder: Folder of the set, whose files are compared where ``images`` does not name its own; None if code of
            another package reads them.

    Returns:
        None if the pixels depend on anything else: on code of another package, or on no file.
    """
    if isinstance(images, ImageFiles) and images.is_plain:
        paths = [images.path(index) for index in range(len(images))]
        return [os.fsencode(images.folder.resolve()), *(_stamp(path) for path in paths)]
    if type(images) is LabeledImages:
        source = identity(images.source, folder)
        return None if source is None else [images.indices.tobytes(), *source]
    paths = sorted(_files(folder)) if folder is not None else []
    return [os.fsencode(folder.resolve()), *(_stamp(path) for path in paths)] if folder and paths else None


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
    # cp -p and rsync -t keep the time of change, but set that of the state anew; renamed files have other numbers.
    return os.fsencode(path) + f" {state.st_size} {state.st_mtime_ns} {state.st_ctime_ns} {state.st_ino}\n".encode()


def _checksum(pixels: NDArray[np.uint8]) -> int:
    """Checksum of an image; never 0, which stands for an image that was not decoded."""
    return zlib.crc32(pixels.data) or 1


class PixelExamples(TransformedExamples):
    """Images as pixels, uint8 (C, H, W), with randomness that depends on (seed, epoch, index) alone.

    Args:
        examples: Map-style data set of (PIL image, class index).
        task: Gives size and channels.
        crop: The augmentation; None for none.
        seed: Seed of the augmentation.
        cache: The pixels that were decoded before; None decodes all anew.
        positions: Position in the cache of every example; default their own order.
        own: A further transform of the pixels of each augmented image; None for none.
    """

    def __init__(
        self,
        examples: Any,
        task: Task,
        crop: CropFlip | None = None,
        seed: int = 0,
        cache: PixelCache | None = None,
        positions: Indices | None = None,
        own: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__(examples, pixel_transform(task), seed, random=crop is not None or own is not None)
        self.crop, self.cache, self.positions, self.own = crop, cache, positions, own
        self.shape = task.image_shape

    def __getitem__(self, key: int | Key) -> tuple[Tensor, Any]:
        return self.__getitems__([key])[0]

    def __getitems__(self, keys: Sequence[int | Key]) -> list[tuple[Tensor, Any]]:
        """The examples of a batch, which are augmented together."""
        pairs = [(0, key) if isinstance(key, int) else key for key in keys]
        pixels, labels = np.empty((len(pairs), *self.shape), np.uint8), self.examples.labels
        for out, (_, index) in zip(pixels, pairs, strict=True):
            self._read(index, out)
        if self.crop is not None:
            pixels = self.crop(pixels, [mix_seed(self.seed, epoch, index) for epoch, index in pairs])
        images = list(torch.from_numpy(pixels).unbind())
        if self.own is not None:
            for number, (epoch, index) in enumerate(pairs):
                with seeded_rng(mix_seed(self.seed, epoch, index, _OWN)):
                    images[number] = self.own(images[number])
        # One class index, or one entry per label.
        known = [label if np.ndim(label := labels[index]) else int(label) for _, index in pairs]
        return list(zip(images, known, strict=True))

    def _read(self, index: int, out: Any) -> None:
        place = index if self.positions is None else int(self.positions[index])
        if self.cache is not None and self.cache.read(place, out):
            return
        out[...] = self.transform(self.examples[index][0]).numpy()
        if self.cache is not None:
            self.cache.write(place, out)
