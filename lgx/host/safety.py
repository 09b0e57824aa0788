"""Read foreign files with limits on their size.

A few lines of YAML can stand for any amount of data, JSON can be nested without end, and a small image can have
billions of pixels. Every reader has a limit, and refuses a larger file in one sentence.
"""

import io
import json
import math
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import yaml
from PIL import EpsImagePlugin, Image

from lgx.errors import UserError
from lgx.host.failures import reason_of
from lgx.host.files import walk

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_JSON = 16 * 2**20
"""Largest JSON file, in bytes: a hundred times lgx's own files, and small enough to parse in memory."""

LARGEST_YAML = 2**20
"""Largest YAML file, in bytes; the longest sweep of the papers has 20 thousand."""

DEEPEST, MOST = 100, 100_000
"""Largest number of nested levels of YAML, and of values; a value behind an alias counts at every use."""

MOST_OPTIONS, LONGEST = 2_000, 64
"""Most values of a configuration, and most of a list in it: the time of the parser grows with the square of a list. A
configuration that a run saves has 300 values; the longest list of the experiments has 13."""

IMAGE_SUFFIXES = (
    ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".webp", ".gif", ".jfif", ".pbm", ".pgm", ".tif", ".tiff", ".npy", ".avif",
    ".heic", ".heif",
)  # fmt: skip
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "WEBP")
"""Formats that are decoded, whatever the name of the file. Pillow recognizes many more by their first bytes."""

MOST_PIXELS = 8192 * 8192
"""Largest number of pixels: decoding takes 256 MB in each loading process. Cameras have 61 million."""

# PostScript is a program, which Pillow passes to Ghostscript; torchvision's readers open files of any format.
EpsImagePlugin.gs_binary = False
# Pillow refuses twice this number, before it decodes, and warns above it; torchvision's readers obey it too.
Image.MAX_IMAGE_PIXELS = MOST_PIXELS // 2
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_non_finite_allowed: ContextVar[bool] = ContextVar("non_finite_allowed", default=False)


def read_at_most(path: Path, largest: int, remedy: str) -> bytes:
    """Read the first bytes of a file, one more than allowed, to detect a file that is too large.

    Args:
        path: The file.
        largest: Most bytes that are read.
        remedy: What the user can do if it cannot be read, for the message.
    """
    if not path.is_file():  # a pipe is refused too: reading it may never end
        raise UserError(f"{path}: {'is a folder' if path.is_dir() else 'no such file'}; {remedy}")
    try:
        with path.open("rb") as file:
            return file.read(largest)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; {remedy}") from error


def read_json(path: str | Path, remedy: str, largest: int = LARGEST_JSON) -> Any:
    """Read a file of JSON.

    Args:
        path: The file.
        remedy: What the user can do if it cannot be read, for the message.
        largest: Most bytes that are read.
    """
    return parse_json(read_at_most(Path(path), largest + 1, remedy), str(path), remedy, largest)


def parse_json(text: str | bytes, place: str, remedy: str, largest: int = LARGEST_JSON) -> Any:
    """Parse JSON.

    Args:
        text: The JSON; UTF-8 if it is bytes.
        place: Where it stands, for the message.
        remedy: What the user can do if it is wrong, for the message.
        largest: Most characters that are parsed.
    """
    if len(text) > largest:
        raise UserError(f"{place}: more than {largest:,} characters of JSON; {remedy}")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place}: not valid JSON ({reason_of(error)}); {remedy}") from error


class TooLarge(yaml.YAMLError):
    """YAML that would exhaust the interpreter, with the reason."""


def check_yaml(text: str, most: int = MOST, longest: int = MOST) -> None:
    """Refuse YAML that would exhaust the interpreter: nested too deeply, too long, or multiplied by aliases.

    Numbers beyond 64 bits are refused as well: no option accepts them, and libraries fail in different ways.

    Raises:
        TooLarge: If it is refused.
        yaml.YAMLError: If it is not YAML.
    """
    if len(text) > LARGEST_YAML:
        raise TooLarge(f"more than {LARGEST_YAML:,} characters")
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []  # anchor, and values before it
    inside = [0.0]  # values of each open list
    values = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.NodeEvent):
            inside[-1] += 1
        if isinstance(event, yaml.CollectionStartEvent):
            inside.append(-math.inf if isinstance(event, yaml.MappingStartEvent) else 0)
            open_nodes.append((event.anchor, values))
            if event.anchor:
                sizes[event.anchor] = MOST  # an alias within itself
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            inside.pop()
            if anchor:
                sizes[anchor] = values - before
        elif isinstance(event, yaml.AliasEvent):
            values += sizes.get(event.anchor or "", 1)
        elif isinstance(event, yaml.ScalarEvent):
            if event.implicit[0] and len(event.value) > 19 and event.value.lstrip("+-").isdigit():
                raise TooLarge(f"a number of {len(event.value):,} digits")
            if len(event.value) > DEEPEST and event.value != text.strip():
                check_text(event.value, most, longest)
            if event.anchor:
                sizes[event.anchor] = 1
        values += isinstance(event, yaml.NodeEvent)
        if len(open_nodes) > DEEPEST:
            raise TooLarge(f"nested more than {DEEPEST} levels deep")
        if values > most:
            raise TooLarge(f"more than {most:,} values")
        if inside[-1] > longest:
            raise TooLarge(f"a list of more than {longest:,} values")


def check_text(text: str, most: int = MOST, longest: int = MOST) -> None:
    """Refuse a text that may be YAML, as :func:`check_yaml`: parsers also try to read texts as lists and mappings.

    Raises:
        TooLarge: If it is YAML that is refused.
    """
    try:
        check_yaml(text, most, longest)
    except TooLarge:
        raise
    except yaml.YAMLError:
        pass  # an ordinary text


def load_plain(text: str) -> Any:
    """Parse YAML that lgx has written or checked, with libyaml if it is installed: ten times as fast."""
    return yaml.load(text, Loader=_Loader)  # a loader of plain values only


def read_yaml(path: Path, remedy: str, most: int = MOST, longest: int = MOST) -> Any:
    """Read a YAML file of plain values.

    Args:
        path: The file.
        remedy: What the user can do if it cannot be read, for the message.
        most: Most values.
        longest: Most values of one list.
    """
    content = read_at_most(path, LARGEST_YAML + 1, remedy)
    try:
        text = content.decode()
        check_yaml(text, most, longest)
        return load_plain(text)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: no UTF-8, or an invalid date
        raise UserError(f"{path}: not valid YAML ({' '.join(str(error).split())[:200]}); {remedy}") from error


def open_undecoded(source: Path | bytes, formats: tuple[str, ...] = FORMATS) -> Image.Image:
    """Open an image without decoding its pixels.

    Raises:
        Exception: Any exception of Pillow for a file in another format, or with more pixels than :data:`MOST_PIXELS`.
    """
    if isinstance(source, Path) and not source.is_file():  # opening a pipe would wait forever
        raise FileNotFoundError("no such file")
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
    if isinstance(error, Image.DecompressionBombError):
        pixels = re.findall(r"\d+", str(error))
        return f"its {int(pixels[0]):,} pixels are more than {MOST_PIXELS:,}; resize it first"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:160]}" if text else type(error).__name__


def list_images(folder: Path, deep: bool = True) -> tuple[list[Path], Counter[str]]:
    """The images below a folder in order, and the number of other files by suffix.

    Links to folders are followed, except to a folder that holds ``folder``. Files and folders whose names begin with a
    dot are not counted; macOS adds such files to archives, and file servers keep small copies in such folders.

    Args:
        folder: The folder.
        deep: Whether the folders in it are read, too.
    """
    images: list[Path] = []
    unread: Counter[str] = Counter()
    for place, inner, names in walk(folder, _refuse):
        inner[:] = [name for name in inner if deep and not name.startswith(".")]
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


@contextmanager
def non_finite_allowed(allowed: bool) -> Iterator[None]:
    """Allow or refuse weights that are not finite inside the block (option ``--allow_non_finite``)."""
    token = _non_finite_allowed.set(allowed)
    try:
        yield
    finally:
        _non_finite_allowed.reset(token)


def refuse_non_finite(tensors: "Mapping[str, Tensor]", place: str) -> None:
    """Refuse tensors with NaN or infinity."""
    if _non_finite_allowed.get():
        return
    wrong = [name for name, tensor in tensors.items() if tensor.is_floating_point() and not tensor.isfinite().all()]
    if wrong:
        raise UserError(
            f"{place}: {wrong[0]} has values that are not finite, because training diverged; train again with a lower "
            "learning rate, or give --allow_non_finite"
        )
