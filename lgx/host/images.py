"""Decode images of files, of known formats and limited size, and list those of a folder."""

import io
import os
import re
import warnings
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import NoReturn

from PIL import EpsImagePlugin, Image

from lgx.errors import UserError

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".webp")
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "WEBP")
"""Formats that are decoded, whatever the name of the file. Pillow recognizes many more by their first bytes."""

PREDICTED_SUFFIXES = (*IMAGE_SUFFIXES, ".gif", ".jfif", ".pbm", ".pgm", ".tif", ".tiff")
PREDICTED_FORMATS = (*FORMATS, "TIFF")
"""What `lgx predict` reads: a trained model meets files that no training set has."""

MOST_PIXELS = 8192 * 8192
"""Most pixels of an image: decoding takes a quarter of a gigabyte in each loading process. Cameras have 61 million."""

# PostScript is a program, which Pillow passes to Ghostscript; torchvision's readers open files of any format.
EpsImagePlugin.gs_binary = False
# Pillow refuses twice this number, before it decodes, and warns above it; torchvision's readers obey it too.
Image.MAX_IMAGE_PIXELS = MOST_PIXELS // 2
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


def opened(source: Path | bytes, formats: tuple[str, ...] = FORMATS) -> Image.Image:
    """Open an image without decoding its pixels.

    Args:
        source: File, or the bytes of one.
        formats: Formats of Pillow that are decoded.

    Raises:
        Exception: Any exception of Pillow for a file in another format, or with more pixels than :data:`MOST_PIXELS`.
    """
    if isinstance(source, Path) and not source.is_file():  # opening a pipe would wait forever
        raise FileNotFoundError("no such file")
    return Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=formats)


def open_image(source: Path | bytes, formats: tuple[str, ...] = FORMATS) -> Image.Image:
    """Decode an image.

    Raises:
        Exception: As :func:`opened`, or any exception of Pillow for a damaged image.
    """
    with opened(source, formats) as image:
        image.load()
        return image


def open_photo(source: Path | bytes, formats: tuple[str, ...] = FORMATS) -> Image.Image:
    """Decode an image that transforms can resize.

    Raises:
        Exception: As :func:`open_image` or :func:`checked`.
    """
    return checked(open_image(source, formats))


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


def one_line(error: Exception) -> str:
    """The reason why an image or a set cannot be read, for a message: class and message of an exception."""
    if isinstance(error, Image.DecompressionBombError):
        pixels = re.findall(r"\d+", str(error))
        return f"its {int(pixels[0]):,} pixels are more than {MOST_PIXELS:,}; resize it first"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:160]}" if text else type(error).__name__


def listed(
    folder: Path, deep: bool = True, suffixes: Collection[str] = IMAGE_SUFFIXES
) -> tuple[list[Path], Counter[str]]:
    """The images below a folder in order, and the number of other files by suffix.

    Links to folders are followed. Files and folders whose names begin with a dot are not counted; macOS adds such files
    to archives, and file servers keep small copies in such folders.

    Args:
        folder: The folder.
        deep: Whether the folders in it are read, too.
        suffixes: Suffixes of the files that count as images, in lower case.

    Raises:
        UserError: If a folder cannot be read.
    """
    images: list[Path] = []
    unread: Counter[str] = Counter()
    seen: set[str] = set()
    for place, inner, names in os.walk(folder, onerror=_refuse, followlinks=True):
        real = os.path.realpath(place)
        inner[:] = [name for name in inner if deep and not name.startswith(".")]
        if real in seen:  # a link to a folder above, or to one that is read already
            inner.clear()
            continue
        seen.add(real)
        for name in names:
            suffix = os.path.splitext(name)[1].lower()
            if suffix in suffixes and not name.startswith("."):
                images.append(Path(place, name))
            elif not name.startswith("."):
                unread[suffix] += 1
    return sorted(images, key=str), unread


def skipped_files(unread: Counter[str]) -> str:
    """Words for files that are not read: ``12 files (.tiff 11, without suffix 1)``."""
    common = sorted(unread.items(), key=lambda pair: (-pair[1], pair[0]))[:5]
    kinds = ", ".join(f"{suffix[:20] or 'without suffix'} {count:,}" for suffix, count in common)
    return f"{unread.total():,} files ({kinds})"


def _refuse(error: OSError) -> NoReturn:
    raise UserError(f"{error.filename}: {error.strerror}; give yourself the right to read it") from error
