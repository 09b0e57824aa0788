"""Images as batches of pixels: cached in a file that processes and runs share, and augmented together."""

import os
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
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
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.host.cache import cached_file, make_room, stamp
from lgx.host.files import atomic_path, walk
from lgx.host.locks import changing

_VERSION = 4


class PixelCache:
    """The cached pixels of the images of a split.

    The file is mapped into memory: processes share it, and the operating system takes the memory back when it needs it.
    Each image has a checksum, so damaged images are decoded again. Without permission or space, nothing is cached.

    Args:
        count: Number of images, N.
        shape: Shape of an image, (C, H, W).
        identity: Identity of the images and of their decoding.
    """

    def __init__(self, count: int, shape: tuple[int, int, int], identity: Iterable[bytes]) -> None:
        kind = f"{_VERSION} {PIL.__version__} {count} {shape}"
        self.path = cached_file("pixels", "pixels", [kind.encode(), *identity])
        self.count, self.failure = count, ""
        self._dtype = np.dtype([("checksum", np.uint32), ("pixels", np.uint8, shape)])

    @property
    def num_bytes(self) -> int:
        """Size of the file."""
        return self.count * self._dtype.itemsize

    def open(self) -> str:
        """Make the file, unless it is there already.

        Returns:
            Why nothing can be cached; empty if caching works.
        """
        return self.failure if self._images is None else ""

    def read(self, index: int, out: NDArray[np.uint8]) -> bool:
        """Copy the pixels of an image, (C, H, W), to ``out``; False if they are not cached."""
        if self._images is None:
            return False
        out[...] = self._images["pixels"][index]
        if not self._checked[index]:
            self._checked[index] = self._images["checksum"][index] == _checksum(out)
        return bool(self._checked[index])

    def read_cached(self, indices: Indices, out: NDArray[np.uint8]) -> bool:
        """Copy the pixels of a batch, (B, C, H, W); False if they were not all compared with their checksums before."""
        if self._images is None or not self._checked[indices].all():
            return False
        out[...] = np.asarray(self._images)["pixels"][indices]  # a view of the mapped type would take longer
        return True

    def write(self, index: int, pixels: NDArray[np.uint8]) -> None:
        """Keep the pixels of an image, (C, H, W)."""
        if self._images is not None and self._images.flags.writeable:
            self._images[index] = _checksum(pixels), pixels
            self._checked[index] = True

    def __getstate__(self) -> dict[str, Any]:
        """Without the mapped file, which each process opens itself."""
        return {key: value for key, value in vars(self).items() if key not in ("_images", "_checked")}

    @cached_property
    def _checked(self) -> NDArray[np.bool_]:
        """Images that this process has compared with their checksums, (N,)."""
        return np.zeros(self.count, bool)

    @cached_property
    def _images(self) -> NDArray[np.void] | None:
        """Checksums and pixels, (N,), mapped into memory; None if nothing can be cached."""
        try:
            with changing(self.path.parent):  # the first of several processes makes the file
                if not self.path.exists() or self.path.stat().st_size != self.num_bytes:
                    self._create()
            with suppress(OSError):
                os.utime(self.path)  # says that it was used
            mode: Literal["r", "r+"] = "r+" if os.access(self.path, os.W_OK) else "r"
            return np.memmap(self.path, self._dtype, mode, shape=(self.count,))
        except (OSError, UserError) as error:
            self.failure = getattr(error, "strerror", "") or str(error)
            return None

    def _create(self) -> None:
        """Make the file with all of its space: writing to a mapped file on a full disk would kill the process."""
        make_room(self.path, self.num_bytes)
        with atomic_path(self.path) as temporary, temporary.open("wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, self.num_bytes)
            else:
                for start in range(0, self.num_bytes, 2**20):
                    file.write(bytes(min(2**20, self.num_bytes - start)))


def identity(images: Any, folder: Path | None) -> Iterable[bytes] | None:
    """The identity of a split's images: names, sizes, times and inodes of files, and positions in them.

    Args:
        images: The images, as a data module holds them.
        folder: Folder of the set, whose files are compared where ``images`` does not name its own; None if code of
            another package reads them.

    Returns:
        None if the pixels depend on anything else, e.g. on code of another package.
    """
    if isinstance(images, ImageFiles) and images.is_plain:
        paths = [images.path(index) for index in range(len(images))]
        return [os.fsencode(images.folder.resolve()), *map(stamp, paths)]
    if hasattr(images, "identity"):
        return images.identity()  # type: ignore[no-any-return]
    if type(images) is LabeledImages:
        source = identity(images.source, folder)
        return None if source is None else [images.indices.tobytes(), *source]
    paths = sorted(Path(place, name) for place, _, names in walk(folder) for name in names) if folder else []
    return [os.fsencode(folder.resolve()), *map(stamp, paths)] if folder and paths else None


def _checksum(pixels: NDArray[np.uint8]) -> int:
    """Checksum of an image; never 0, which stands for an image that was not decoded."""
    return zlib.crc32(pixels.data) or 1


class PixelExamples(TransformedExamples):
    """Images as pixels, uint8 (C, H, W); randomness depends only on (seed, epoch, index).

    Args:
        examples: Map-style data set of (PIL image, class index).
        task: Gives size and channels.
        crop: The augmentation; None for none.
        seed: Seed of the augmentation.
        cache: The cache of pixels; None decodes every time.
        positions: Position in the cache of every example; default their own order.
    """

    def __init__(
        self,
        examples: Any,
        task: Task,
        crop: CropFlip | None = None,
        seed: int = 0,
        cache: PixelCache | None = None,
        positions: Indices | None = None,
    ) -> None:
        super().__init__(examples, pixel_transform(task), seed, random=crop is not None)
        self.crop, self.cache, self.positions = crop, cache, positions
        self.shape = task.image_shape

    def __getitem__(self, key: int | Key) -> tuple[Tensor, Any]:
        return self.__getitems__([key])[0]

    def __getitems__(self, keys: Sequence[int | Key]) -> list[tuple[Tensor, Any]]:
        """The examples of a batch, which are augmented together."""
        pairs = [(0, key) if isinstance(key, int) else key for key in keys]
        pixels = np.empty((len(pairs), *self.shape), np.uint8)
        labels = self.examples.labels
        indices = np.array([index for _, index in pairs])
        places = indices if self.positions is None else self.positions[indices]
        if self.cache is None or not self.cache.read_cached(places, pixels):
            for out, (_, index), place in zip(pixels, pairs, places.tolist(), strict=True):
                self._read(index, place, out)
        if self.crop is not None:
            pixels = self.crop(pixels, [mix_seed(self.seed, epoch, index) for epoch, index in pairs])
        # One class index, or one entry per label.
        classes = [label if np.ndim(label := labels[index]) else int(label) for _, index in pairs]
        return list(zip(torch.from_numpy(pixels), classes, strict=True))

    def _read(self, index: int, place: int, out: Any) -> None:
        if self.cache is not None and self.cache.read(place, out):
            return
        out[...] = self.transform(self.examples[index][0]).numpy()
        if self.cache is not None:
            self.cache.write(place, out)
