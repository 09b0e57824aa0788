"""Map-style images whose labels are known without decoding them."""

import os
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from data_modules.files.errors import decoding
from data_modules.loading.fingerprint import content_of_files, spread
from data_modules.splits import Indices
from lgx.host.images import SOME, ImageReader, opaque, upright

_DECODED = 16
"""Number of images of a split whose pixels identify it, if they are not separate files."""


class Images(Protocol):
    """A map-style data set of (PIL image, class index) whose labels are known in advance.

    A set for segmentation gives the class index of every pixel instead, see :mod:`data_modules.sets.segmentation`.
    """

    @property
    def labels(self) -> Any:
        """Class index of every example, known without decoding an image."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> tuple[Image.Image, int]: ...


class LabeledImages:
    """Some examples of a map-style source of (PIL image, class index); the labels are known without decoding.

    Args:
        source: Any object whose elements are (PIL image, label), e.g. a torchvision data set.
        labels: Class index of every example of this split.
        where: Set and split, for error messages.
        indices: Positions of the examples in ``source``, in order; default all.
    """

    def __init__(self, source: Any, labels: Any, where: str, indices: Indices | None = None) -> None:
        self.source, self.where = source, where
        self.indices: Indices = np.arange(len(labels)) if indices is None else np.asarray(indices, np.int64)
        self.labels: Indices = np.asarray(labels, np.int64)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        position = int(self.indices[index])
        with decoding(f"{self.where}: image {position}", "restore its file or prepare the set again"):
            image = self.source[position][0]
            if isinstance(image, Tensor):  # of several channels
                return image, int(self.labels[index])
            image.load()  # PIL decodes lazily: outside this block the position of a damaged image is unknown
            return opaque(upright(image)), int(self.labels[index])

    def paths(self) -> list[Path]:
        """The files of the images and of their masks, if known."""
        return []

    def take(self, indices: Indices, where: str | None = None) -> Self:
        """The examples at ``indices`` (positions in this object)."""
        part = copy(self)
        part.indices = self.indices[indices]
        part.labels = self.labels[indices]
        part.where = where or self.where
        return part


class ImageFiles:
    """Image files below one folder.

    Args:
        folder: The folder.
        names: Paths relative to it.
        labels: Class index of every file; an array may have a row of labels for each.
        where: Set and split, for error messages.

    Attributes:
        reader: Decodes them.
    """

    reader = ImageReader()

    def __init__(self, folder: Path, names: Sequence[str], labels: Any, where: str) -> None:
        # One array of bytes: reference counting would copy a million Python strings into every loader process.
        self.names = np.array([os.fsencode(name) for name in names], dtype=np.bytes_)
        self.folder, self.where = folder, where
        self.labels: NDArray[Any] = labels if isinstance(labels, np.ndarray) else np.asarray(labels, np.int64)

    def __len__(self) -> int:
        return len(self.names)

    def path(self, index: int) -> Path:
        """Path of one file."""
        name: bytes = self.names[index]
        return self.folder / os.fsdecode(name)

    @property
    def is_plain(self) -> bool:
        """Whether images are unchanged files; False for a class that crops them, for example."""
        return type(self).decoded is ImageFiles.decoded and type(self).__getitem__ is ImageFiles.__getitem__

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        label = self.labels[index]
        return self.decoded(index), label if np.ndim(label) else int(label)

    def decoded(self, index: int) -> Any:
        """Decode one file: a PIL image, or pixels of several channels, uint8 (C, H, W).

        Raises:
            DataError: If it is damaged; the sentence names it.
        """
        path = self.path(index)
        with decoding(f"{self.where}: {path}", "restore the file or remove it"):
            return self.reader(path)

    def sources(self) -> Iterator[Path]:
        """Some of the files, evenly spread."""
        yield from (self.path(index) for index in range(0, len(self), len(self) // SOME + 1))

    def encoded(self, index: int) -> tuple[bytes, str] | None:
        """The bytes of the file and its suffix if a shard can hold them unchanged, else None."""
        path = self.path(index)
        suffix = {".jpg": "jpg", ".jpeg": "jpg", ".png": "png", ".webp": "webp"}.get(path.suffix.lower())
        return None if suffix is None else (path.read_bytes(), suffix)

    def take(self, indices: Indices, where: str | None = None) -> Self:
        """The files at ``indices``."""
        part = copy(self)
        part.names = self.names[indices]
        part.labels = self.labels[indices]
        part.where = where or self.where
        return part


def source_of(images: Any) -> Any:
    """The object that decodes the images of a split: the whole set, if they are a part of it."""
    while isinstance(images, LabeledImages):
        images = images.source
    return images


def files_of(images: Any) -> list[str]:
    """File of each image, relative to the folder of its split; empty if another library reads them."""
    if isinstance(images, ImageFiles):
        return [Path(os.fsdecode(name)).as_posix() for name in images.names]
    return []


def content_of(images: Any) -> Iterator[bytes]:
    """The identity of images, besides their labels.

    For files: names and contents, see :func:`~data_modules.loading.fingerprint.content_of_files`. For a part of files
    or shards: its positions, and the whole source. For other images: the pixels of 16 evenly spread images.
    """
    if isinstance(images, ImageFiles) and images.is_plain:
        yield images.names.tobytes()
        yield from content_of_files(len(images), images.path)
    elif isinstance(images, LabeledImages) and (files := images.paths()):
        yield "\n".join(path.name for path in files).encode()
        yield from content_of_files(len(files), files.__getitem__)
    elif isinstance(images, LabeledImages) and (
        isinstance(images.source, LabeledImages) or hasattr(images.source, "sources")
    ):
        yield images.indices.tobytes()
        yield from content_of(images.source)
    else:
        yield from (images[index][0].tobytes() for index in spread(len(images), _DECODED))
