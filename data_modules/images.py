"""Map-style images whose labels are known without decoding them."""

import io
import os
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from PIL import EpsImagePlugin, Image

from data_modules.splits import Indices
from lgx.errors import UserError

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".webp")
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "WEBP")
"""Formats that are decoded, whatever the name of the file. Pillow recognizes many more by their first bytes."""

MOST_PIXELS = 8192 * 8192
"""Most pixels of an image: decoding takes a quarter of a gigabyte in each loading process. Cameras have 61 million."""

# PostScript is a program, which Pillow passes to Ghostscript; torchvision's readers open files of any format.
EpsImagePlugin.gs_binary = False
# Pillow refuses twice this number, before it decodes, and warns above it; torchvision's readers obey it too.
Image.MAX_IMAGE_PIXELS = MOST_PIXELS // 2
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


class DataError(UserError):
    """A :class:`UserError` that is still one sentence after it came from a loader process.

    DataLoader builds the exception of a worker again from the text of its whole traceback; this class keeps only the
    sentence at the end.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message.rstrip().rsplit("DataError: ", 1)[-1])


def opened(source: Path | bytes) -> Image.Image:
    """Open an image without decoding its pixels.

    Args:
        source: File, or the bytes of one.

    Raises:
        Exception: Any exception of Pillow for a file in another format than :data:`FORMATS`, or with more pixels than
            :data:`MOST_PIXELS`.
    """
    if isinstance(source, Path) and not source.is_file():  # opening a pipe would wait forever
        raise FileNotFoundError("no such file")
    return Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS)


def open_image(source: Path | bytes) -> Image.Image:
    """Decode an image.

    Raises:
        Exception: As :func:`opened`, or any exception of Pillow for a damaged image.
    """
    with opened(source) as image:
        image.load()
        return image


def open_photo(source: Path | bytes) -> Image.Image:
    """Decode an image that transforms can resize.

    Raises:
        Exception: As :func:`open_image` or :func:`checked`.
    """
    return checked(open_image(source))


def checked(image: Image.Image) -> Image.Image:
    """Return the image if transforms can resize it.

    Raises:
        ValueError: If it is so narrow that enlarging its short side would take gigabytes, or the range of its pixel
            values is unknown.
    """
    if max(image.size) > 100 * min(image.size):
        raise ValueError(f"{image.width} x {image.height} pixels; one side is more than 100 times the other")
    if image.mode in ("I", "F"):
        raise ValueError(f"mode {image.mode} has no known range of values; save it with 8 or 16 bits")
    return image


class Images(Protocol):
    """A map-style data set of (PIL image, class index) whose labels are known in advance.

    A set for segmentation gives the class index of every pixel instead, see :mod:`data_modules.segmentation`.
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

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        position = int(self.indices[index])
        try:
            image = self.source[position][0]
            image.load()  # PIL decodes lazily: outside this block the position of a damaged image is unknown
            checked(image)
        except (UserError, MemoryError):
            raise
        except Exception as error:
            raise DataError(
                f"{self.where}: image {position} cannot be decoded ({one_line(error)}); "
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
        # One array of bytes: reference counting would copy a million Python strings into every loader process.
        self.names = np.array([os.fsencode(name) for name in names], dtype=np.bytes_)
        self.folder, self.where = folder, where
        self.labels: NDArray[Any] = np.asarray(labels, np.int64)

    def __len__(self) -> int:
        return len(self.names)

    def path(self, index: int) -> Path:
        """Path of one file."""
        name: bytes = self.names[index]
        return self.folder / os.fsdecode(name)

    def __getitem__(self, index: int) -> tuple[Image.Image, Any]:
        return self.decoded(index), int(self.labels[index])

    def decoded(self, index: int) -> Image.Image:
        """Decode one file.

        Raises:
            DataError: If it is damaged; the sentence names it.
        """
        path = self.path(index)
        try:
            return open_photo(path)
        except MemoryError:
            raise
        except Exception as error:
            raise DataError(
                f"{self.where}: {path} cannot be decoded ({one_line(error)}); restore the file or remove it"
            ) from error

    def encoded(self, index: int) -> tuple[bytes, str] | None:
        """The bytes of the file and its suffix if a shard can hold them unchanged, else None."""
        path = self.path(index)
        suffix = {".jpg": "jpg", ".jpeg": "jpg", ".png": "png", ".webp": "webp"}.get(path.suffix.lower())
        if suffix is None:
            return None
        try:
            opened(path).close()
            return path.read_bytes(), suffix
        except Exception as error:  # a file that is not an image, e.g. behind a link, must not get into the shards
            raise DataError(f"{self.where}: {path} is not an image ({one_line(error)}); remove it") from error

    def take(self, indices: Indices, where: str | None = None) -> Self:
        """The files at ``indices``."""
        names = [os.fsdecode(name) for name in self.names[indices]]
        return type(self)(self.folder, names, self.labels[indices], where or self.where)


def guarded(build: Callable[[], Any], what: str, remedy: str) -> Any:
    """Call ``build`` and turn an exception of a reader into one sentence.

    Args:
        build: Opens a data set.
        what: Name and place of the data, for the message.
        remedy: What the user can do, for the message.

    Returns:
        The result of ``build``.

    Raises:
        UserError: If ``build`` raised any exception.
    """
    try:
        return build()
    except (UserError, MemoryError):
        raise
    except Exception as error:
        raise UserError(f"{what} is incomplete or corrupted ({one_line(error)}); {remedy}") from error


def one_line(error: Exception) -> str:
    """The reason why an image or a set cannot be read, for a message: class and message of an exception."""
    if isinstance(error, Image.DecompressionBombError):
        pixels = re.findall(r"\d+", str(error))
        return f"its {int(pixels[0]):,} pixels are more than {MOST_PIXELS:,}; resize it first"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:160]}" if text else type(error).__name__
