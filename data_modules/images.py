"""Map-style images whose labels are known without decoding them."""

import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import EpsImagePlugin, Image

from data_modules.splits import Indices
from lgx.errors import UserError

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".webp")
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "WEBP")
"""What is decoded, whatever a file is called. Pillow tells many more formats by their first bytes."""

# One of them is PostScript, a program, which Pillow hands to Ghostscript; torchvision's readers open what they find.
EpsImagePlugin.gs_binary = False


class DataError(UserError):
    """A :class:`UserError` that stays one sentence when it crosses from a loader process.

    DataLoader rebuilds a worker's exception from the text of the worker's whole traceback; only the sentence at its
    end is kept.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message.rstrip().rsplit("DataError: ", 1)[-1])


def opened(source: Path | bytes) -> Image.Image:
    """An image of which only the beginning was read.

    Args:
        source: File, or what is in one.

    Raises:
        Exception: Whatever Pillow raises of a file in another format than :data:`FORMATS`, or with more pixels than
            its limit.
    """
    if isinstance(source, Path) and not source.is_file():  # opening a pipe would wait for ever
        raise FileNotFoundError("no such file")
    return Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS)


def open_image(source: Path | bytes) -> Image.Image:
    """Decode an image.

    Raises:
        Exception: As :func:`opened`, or whatever Pillow raises of a damaged image.
    """
    with opened(source) as image:
        image.load()
        return image


def open_photo(source: Path | bytes) -> Image.Image:
    """Decode an image of which the short side is resized.

    Raises:
        Exception: As :func:`open_image`, or if it is none that transforms can take.
    """
    return checked(open_image(source))


def checked(image: Image.Image) -> Image.Image:
    """The image itself.

    Raises:
        ValueError: If it is a line, which would become gigabytes when its short side is enlarged, or has pixels of an
            unknown range.
    """
    if max(image.size) > 100 * min(image.size):
        raise ValueError(f"{image.width} x {image.height} pixels; one side is more than 100 times the other")
    if image.mode in ("I", "F"):
        raise ValueError(f"mode {image.mode} has no known range of values; save it with 8 or 16 bits")
    return image


class Images(Protocol):
    """A map-style data set of (PIL image, class index) with the labels at hand.

    A set for segmentation gives the class index of every pixel instead, see :mod:`data_modules.segmentation`.
    """

    @property
    def labels(self) -> Any:
        """Class index of every example, known without decoding an image."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> tuple[Image.Image, int]: ...


class LabeledImages:
    """Some examples of a map-style source of (PIL image, class index), labels known without decoding.

    Args:
        source: Anything indexable that gives (PIL image, label), e.g. a torchvision data set.
        labels: Class index of every example of this split.
        where: Set and split, for error messages.
        indices: Which examples of ``source`` those are, in order; default all.
    """

    def __init__(self, source: Any, labels: Any, where: str, indices: Indices | None = None) -> None:
        self.source, self.where = source, where
        self.indices: Indices = np.arange(len(labels)) if indices is None else np.asarray(indices, np.int64)
        self.labels: Indices = np.asarray(labels, np.int64)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        position = int(self.indices[index])
        try:
            image = self.source[position][0]
            image.load()  # PIL decodes lazily: outside this block nobody would know which image failed
            checked(image)
        except UserError:
            raise
        except Exception as error:
            raise DataError(
                f"{self.where}: image {position} cannot be decoded ({_one_line(error)}); "
                "restore its file or prepare the set again"
            ) from error
        return image, int(self.labels[index])

    def take(self, indices: Indices, where: str | None = None) -> "LabeledImages":
        """The examples at ``indices`` (positions in this object)."""
        return LabeledImages(self.source, self.labels[indices], where or self.where, self.indices[indices])


class ImageFiles:
    """Image files below one folder.

    Args:
        folder: The folder.
        names: Paths relative to it.
        labels: Class index of every file.
        where: Set and split, for error messages.
    """

    def __init__(self, folder: Path, names: Sequence[str], labels: Any, where: str) -> None:
        # One array of bytes: a million Python strings would be copied into every loader process by reference counting.
        self.names = np.array([os.fsencode(name) for name in names], dtype=np.bytes_)
        self.folder, self.where = folder, where
        self.labels: Indices = np.asarray(labels, np.int64)

    def __len__(self) -> int:
        return len(self.names)

    def path(self, index: int) -> Path:
        """Path of one file."""
        name: bytes = self.names[index]
        return self.folder / os.fsdecode(name)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        path = self.path(index)
        try:
            return open_photo(path), int(self.labels[index])
        except Exception as error:
            raise DataError(
                f"{self.where}: {path} cannot be decoded ({_one_line(error)}); restore the file or remove it"
            ) from error

    def encoded(self, index: int) -> tuple[bytes, str] | None:
        """The file's own bytes and suffix where a shard can hold them as they are, else None."""
        path = self.path(index)
        suffix = {".jpg": "jpg", ".jpeg": "jpg", ".png": "png", ".webp": "webp"}.get(path.suffix.lower())
        if suffix is None:
            return None
        try:
            opened(path).close()
            return path.read_bytes(), suffix
        except Exception as error:  # what is no image, behind a link perhaps, shall not be handed on with the shards
            raise DataError(f"{self.where}: {path} is no image ({_one_line(error)}); remove it") from error

    def take(self, indices: Indices, where: str | None = None) -> "ImageFiles":
        """The files at ``indices``."""
        names = [os.fsdecode(name) for name in self.names[indices]]
        return ImageFiles(self.folder, names, self.labels[indices], where or self.where)


def class_folders(folder: Path) -> list[str]:
    """Names of the class folders in ``folder``: as numbers where all are numbers, else by alphabet."""
    names = [p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")]
    return sorted(names, key=int) if all(n.isdecimal() for n in names) else sorted(names)


def read_class_tree(folder: Path, classes: Sequence[str], where: str) -> ImageFiles:
    """Read ``folder/<class>/**/*.{jpg,png,...}``.

    Args:
        folder: Folder of one split.
        classes: Class folders in index order.
        where: Set and split, for error messages.

    Returns:
        The files, sorted by class and path.

    Raises:
        UserError: If the class folders are not exactly ``classes``.
    """
    found = class_folders(folder)
    if set(found) != set(classes):
        missing, extra = sorted(set(classes) - set(found)), sorted(set(found) - set(classes))
        problem = f"lacks {missing[:3]}" if missing else f"has the unknown class folders {extra[:3]}"
        raise UserError(f"{where}: {folder} {problem}; expected exactly the {len(classes)} class folders of this set")
    names: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        inside = (folder / name).rglob("*")
        files = sorted(
            str(p.relative_to(folder))
            for p in inside
            if p.suffix.lower() in IMAGE_SUFFIXES and not p.name.startswith(".")  # what macOS adds to archives
        )
        names += files
        labels += [label] * len(files)
    return ImageFiles(folder, names, labels, where)


def guarded(build: Callable[[], Any], what: str, remedy: str) -> Any:
    """Call ``build``; turn a reader's exception into one sentence.

    Args:
        build: Opens a data set.
        what: What was being read, where.
        remedy: What would help.

    Returns:
        What ``build`` returns.

    Raises:
        UserError: If ``build`` raised anything.
    """
    try:
        return build()
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{what} is incomplete or corrupted ({_one_line(error)}); {remedy}") from error


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:160]}" if text else type(error).__name__
