"""Read foreign JSON, YAML and images; what cannot be read is refused in one sentence."""

import errno
import io
import json
import os
import stat
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

import yaml
from PIL import EpsImagePlugin, Image

from lgx.errors import UserError
from lgx.host.failures import reason_of
from lgx.host.files import walk

IMAGE_SUFFIXES = (
    ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".webp", ".gif", ".jfif", ".pbm", ".pgm", ".tif", ".tiff", ".npy", ".avif",
    ".heic", ".heif",
)  # fmt: skip
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "WEBP")
"""Formats that are decoded, whatever the name of the file. Pillow recognizes many more by their first bytes."""

# PostScript is a program, which Pillow passes to Ghostscript; torchvision's readers open files of any format.
EpsImagePlugin.gs_binary = False

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_bytes(path: Path, remedy: str) -> bytes:
    """Read a file.

    Args:
        path: The file.
        remedy: What the user can do if it cannot be read, for the message.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; {remedy}") from error


def read_json(path: str | Path, remedy: str) -> Any:
    """Read a file of JSON.

    Args:
        path: The file.
        remedy: What the user can do if it cannot be read, for the message.
    """
    return parse_json(read_bytes(Path(path), remedy), str(path), remedy)


def parse_json(text: str | bytes, place: str, remedy: str) -> Any:
    """Parse JSON.

    Args:
        text: The JSON; UTF-8 if it is bytes.
        place: Where it stands, for the message.
        remedy: What the user can do if it is wrong, for the message.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place}: not valid JSON ({reason_of(error)}); {remedy}") from error


def check_file(path: Path) -> None:
    """Refuse what is not a regular file; opening a pipe would wait for a writer.

    Raises:
        OSError: If it is missing or something else.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a file", str(path))


def load_plain(text: str) -> Any:
    """Parse YAML of plain values, with libyaml if it is installed: ten times as fast."""
    return yaml.load(text, Loader=_Loader)  # a loader of plain values only


def read_yaml(path: Path, remedy: str) -> Any:
    """Read a YAML file of plain values.

    Args:
        path: The file.
        remedy: What the user can do if it cannot be read, for the message.
    """
    try:
        return load_plain(read_bytes(path, remedy).decode())
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: no UTF-8, or an invalid date
        raise UserError(f"{path}: not valid YAML ({' '.join(str(error).split())[:200]}); {remedy}") from error


def open_undecoded(source: Path | bytes, formats: tuple[str, ...] = FORMATS) -> Image.Image:
    """Open an image without decoding its pixels.

    Raises:
        Exception: Any exception of Pillow for a file in another format.
    """
    if isinstance(source, Path):
        check_file(source)
    return Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=formats)


def open_image(source: Path | bytes, formats: tuple[str, ...] = FORMATS) -> Image.Image:
    """Decode an image.

    Raises:
        Exception: As :func:`open_undecoded`, or any exception of Pillow for a damaged image.
    """
    with open_undecoded(source, formats) as image:
        image.load()
        return image


def error_line(error: Exception) -> str:
    """The reason why an image or a set cannot be read, for a message: class and message of an exception."""
    if isinstance(error, UserError):
        return str(error)
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:160]}" if text else type(error).__name__


def list_images(folder: Path) -> tuple[list[Path], Counter[str]]:
    """The images below a folder in order, and the number of other files by suffix.

    Links to folders are followed, except to a folder that holds ``folder``. Files and folders whose names begin with a
    dot are not counted; macOS adds such files to archives, and file servers keep small copies in such folders.
    """
    images: list[Path] = []
    unread: Counter[str] = Counter()
    for place, inner, names in walk(folder, _refuse):
        inner[:] = [name for name in inner if not name.startswith(".")]
        for name in names:
            suffix = os.path.splitext(name)[1].lower()
            if suffix in IMAGE_SUFFIXES and not name.startswith("."):
                images.append(Path(place, name))
            elif not name.startswith("."):
                unread[suffix] += 1
    return sorted(images, key=str), unread


def skipped_files(unread: Counter[str]) -> str:
    """Words for unread files: ``12 files (.tiff 11, without suffix 1)``."""
    common = sorted(unread.items(), key=lambda pair: (-pair[1], pair[0]))[:5]
    kinds = ", ".join(f"{suffix[:20] or 'without suffix'} {count:,}" for suffix, count in common)
    return f"{unread.total():,} files ({kinds})"


def _refuse(error: OSError) -> NoReturn:
    raise UserError(f"{error.filename}: {error.strerror}; set permissions to read it") from error
