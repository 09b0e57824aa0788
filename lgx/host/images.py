"""Read images: every path that decodes a file or the bytes of one calls :class:`ImageReader`."""

import io
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps
from torch import Tensor

from lgx.errors import UserError
from lgx.host.extras import extra
from lgx.host.safety import FORMATS, MOST_PIXELS, open_image, open_undecoded

MOST_CHANNELS = 16
_DEEP_TIFF = ("MINISWHITE", "MINISBLACK", "RGB", "SEPARATED")
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
SOME = 64
"""Most files whose values are compared with the range that is expected."""


class _Stored(NamedTuple):
    """Pixels as a file has them, where Pillow cannot hold them or loses some of their bits.

    Attributes:
        values: (H, W, C), of any type of numbers.
        bits: Bits of a value.
        orientation: As in EXIF.
        alpha: ``A`` if the last channel is the opacity, ``a`` if the others are multiplied by it.
        hidden: The gray or color that is transparent.
        inverted: Whether 0 is white.
    """

    values: NDArray[Any]
    bits: int
    orientation: int = 1
    alpha: str = ""
    hidden: Any = None
    inverted: bool = False


@dataclass(frozen=True)
class ImageReader:
    """Decodes images of a task, turned as their EXIF orientation says.

    Values of more than 8 bits are scaled to 8: those of ``value_range``, else all that unsigned integers of 16 bits can
    have, or numbers between 0 and 1.

    Args:
        channels: 1 or 3 for gray and RGB images, which are read as they are stored, over white where transparent; else
            the number of channels: bands or pages of TIFF, arrays of numpy, or the channels of PNG and WebP.
        value_range: Values of files of more than 8 bits that become 0 and 255; empty if not given.
    """

    channels: int = 3
    value_range: tuple[float, ...] = ()

    @property
    def is_photo(self) -> bool:
        """Whether images are gray or RGB."""
        return self.channels in (1, 3)

    def __call__(self, source: Path | bytes) -> Image.Image | Tensor:
        """Decode one image.

        Args:
            source: File, or the bytes of one, of a format that its first bytes say.

        Returns:
            An image of mode L or RGB, or for other numbers of channels pixels, uint8 (C, H, W).

        Raises:
            UserError: If it is intact, but of another form than expected.
            Exception: Any exception of Pillow, numpy, torchvision or tifffile for a damaged or unknown file.
        """
        stored = self._open(source)
        if isinstance(stored, Image.Image):
            return opaque(upright(check_resizable(stored)))
        if self.is_photo:
            return opaque(self._photo(stored))
        if (found := stored.values.shape[-1]) != self.channels:
            raise UserError(f"{found} channels; expected {self.channels} channels, see data.in_chans")
        return torch.from_numpy(np.ascontiguousarray(np.moveaxis(_turned(self._scaled(stored), stored), -1, 0)))

    def check_values(self, name: str, sources: Iterable[Path | bytes]) -> tuple[str, str]:
        """Compare the values of some images with the range that is expected.

        Args:
            name: What holds the images, for the lines.
            sources: The images, of which at most 64 are read, and decoded if they have more than 8 bits. Those that
                cannot be read are left out.

        Returns:
            A line that says the range, and a sentence if it is wrong; both empty where all images have 8 bits.
        """
        found: list[tuple[float, float, float, Any]] = []
        given = self.value_range
        for source in islice(sources, SOME):
            try:
                stored = self._open(source)
            except Exception:  # decoding it says what is wrong
                continue
            if isinstance(stored, _Stored) and stored.bits > 8 and stored.values.size:
                values, (low, high) = stored.values, given or (0, 2**stored.bits - 1)
                outside = float(((values < low) | (values > high)).mean()) if given else 0.0
                found.append((float(values.min()), float(values.max()), outside, stored))
        if not found:
            return "", ""
        least, most = min(low for low, *_ in found), max(high for _, high, *_ in found)
        words = f"{name}: files have values {least:g} to {most:g}"
        if given:
            outside = sum(share for _, _, share, _ in found) / len(found)
            is_wrong = outside > 0.5 or most - least < (given[1] - given[0]) / SOME
            line = f"{words}; {given[0]:g} to {given[1]:g} become 0 to 255 (data.value_range)"
            return line, f"data.value_range: {line}; give the range of the files" * is_wrong
        bits = max(stored.bits for *_, stored in found)
        if any(stored.values.dtype.kind != "u" for *_, stored in found) or 2 * most >= 2**bits - 1:
            return f"{words}; all that their type can have become 0 to 255 (data.value_range)", ""
        top = 2 ** int(most).bit_length() - 1
        return "", (
            f"{words} in {bits} bits, of which few levels would be left in 8; give data.value_range [0, {top}], or "
            f"[0, {2**bits - 1}] if they are only dark"
        )

    def _open(self, source: Path | bytes) -> "_Stored | Image.Image":
        head = _head(source)
        if head.startswith(b"\x93NUMPY") and isinstance(source, Path):
            return self._array(source)
        if head[:4] in _TIFF and (stored := self._tiff(source)) is not None:
            return stored
        image = open_image(source, _formats(head))
        if image.mode == "I" and image.format == "PPM":  # which says its range: Pillow has scaled it to 16 bits
            return Image.fromarray(np.rint(np.asarray(image) / 257).astype(np.uint8))
        orientation, hidden = _orientation(image), image.info.get("transparency")
        if image.format == "PNG" and head[24] == 16:  # of colors Pillow drops 8 of the 16 bits
            values = _sixteen_bits(source, check_resizable(image), head[25])
            return _Stored(values, 16, orientation, "A" * (values.shape[-1] == 4), hidden)
        if self.is_photo:
            return image
        if image.mode not in ("LA", "RGBA"):
            raise UserError(f"an image of mode {image.mode}; expected {self.channels} channels, see data.in_chans")
        return _Stored(np.asarray(check_resizable(image)), 8, orientation)

    def _array(self, path: Path) -> _Stored:
        """A file of numpy: (H, W), (H, W, C) or (C, H, W)."""
        values = np.load(path, allow_pickle=False, mmap_mode="r")
        counts = (1, 3) if self.is_photo else (self.channels,)
        if values.ndim == 2 and self.is_photo:
            values = values[..., None]
        first, last = (values.ndim == 3 and values.shape[end] in counts for end in (0, -1))
        words = f"an array of shape {values.shape}"
        if not (first or last):
            raise UserError(f"{words}; expected {' or '.join(map(str, counts))} channels, see data.in_chans")
        if first and last:
            raise UserError(f"{words} may have its channels first or last; save it with another height or width")
        values = values if last else np.moveaxis(values, 0, -1)
        _check_sides(*values.shape)
        return _Stored(np.asarray(values), 1 if values.dtype == bool else 8 * values.dtype.itemsize)

    def _tiff(self, source: Path | bytes) -> _Stored | None:
        """The pages of a TIFF file; None for gray and RGB of 8 bits, which Pillow reads with all their compressions."""
        import tifffile

        logging.getLogger("tifffile").setLevel(logging.CRITICAL)
        with tifffile.TiffFile(io.BytesIO(source) if isinstance(source, bytes) else source) as file:
            known: list[Any] = [*islice(file.pages, 4 * MOST_CHANNELS)]
            pages = [page for page in known if not page.subfiletype & 5]  # no small copy and no mask
            if not pages:
                raise UserError("a TIFF file without a page of full size")
            first = pages[0]
            if self.is_photo:
                if (count := sum(page.shape == first.shape for page in pages)) > 1:
                    raise UserError(f"{count} pages of one size; save one, or give data.in_chans if they are channels")
                is_deep = first.bitspersample > 8 or first.sampleformat != 1
                if not is_deep and (first.photometric.name != "MINISBLACK" or first.samplesperpixel < 3):
                    return None
                pages = [first]
            elif len({(page.shape, page.dtype, page.photometric) for page in pages}) > 1:
                raise UserError("pages of several sizes, types or meanings; save all channels alike")
            if first.photometric.name not in _DEEP_TIFF or first.axes not in ("YX", "YXS", "SYX"):
                raise UserError(f"colors of kind {first.photometric.name}; save it as gray, RGB or channels")
            _check_sides(first.imagelength, first.imagewidth, len(pages) * first.samplesperpixel)
            values = np.concatenate([_samples(page) for page in pages], axis=-1)
            opacity = int((0, *first.extrasamples)[-1]) if self.is_photo else 0
            tag = first.tags.get(ExifTags.Base.Orientation)
            return _Stored(
                values,
                first.bitspersample,
                int(tag.value) if tag is not None else 1,
                alpha={1: "a", 2: "A"}.get(opacity, ""),
                inverted=first.photometric.name == "MINISWHITE",
            )

    def _scaled(self, stored: _Stored, values: NDArray[Any] | None = None) -> NDArray[np.uint8]:
        """Values as uint8; ``values`` are some of those that are stored."""
        values = stored.values if values is None else values
        kind, low, high = values.dtype.kind, 0.0, 2.0**stored.bits - 1
        if kind == "b":
            high = 1
        elif self.value_range and stored.bits > 8:
            low, high = self.value_range
        elif kind == "f" and values.min() >= 0 and values.max() <= 1:
            high = 1
        elif kind != "u" or stored.bits > 16:
            raise UserError(f"{values.dtype} has no known range; give data.value_range, or save 8 or 16 bits")
        if kind == "f" and not np.isfinite(values).all():
            raise UserError("values that are no finite numbers; replace them")
        if stored.bits == 8 and not stored.inverted:
            return values.astype(np.uint8)
        scaled: Any = np.interp(values, (low, high), (255, 0) if stored.inverted else (0, 255))
        pixels: NDArray[np.uint8] = np.rint(scaled).astype(np.uint8)
        return pixels

    def _photo(self, stored: _Stored) -> Image.Image:
        """A gray or RGB image, with its opacity."""
        colors = stored.values[..., : stored.values.shape[-1] - len(stored.alpha)]
        if (count := colors.shape[-1]) not in (1, 3):
            raise UserError(f"{count} channels; expected gray or RGB, see data.in_chans")
        pixels = self._scaled(stored, colors)
        if stored.alpha:
            full = ImageReader(self.channels)
            pixels = np.dstack([pixels, full._scaled(stored._replace(inverted=False), stored.values[..., -1:])])
        elif stored.hidden is not None:
            pixels = np.dstack([pixels, 255 * (colors != stored.hidden).any(axis=-1).astype(np.uint8)])
        suffix = stored.alpha or ("A" if pixels.shape[-1] > count else "")
        pixels = np.ascontiguousarray(_turned(pixels, stored))
        image = Image.frombytes(("L" if count == 1 else "RGB") + suffix, pixels.shape[1::-1], pixels.tobytes())
        return image.convert(image.mode.upper()) if suffix == "a" else image


def opaque(image: Image.Image) -> Image.Image:
    """Convert an image to the mode L, if it is gray, or RGB; what is transparent is shown over white.

    Raises:
        UserError: If the range of its pixel values is unknown.
    """
    if image.mode.startswith("I;16"):  # Pillow would clip it to white
        values = np.asarray(image)[..., None]
        image = ImageReader()._photo(_Stored(values, 16, hidden=image.info.get("transparency")))
    if check_resizable(image).mode in ("L", "RGB") and "transparency" not in image.info:
        return image
    gray = image.mode in ("1", "L", "LA", "La")
    if image.has_transparency_data:
        # Pillow would show the colors that transparent pixels hide.
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    return image.convert("L" if gray else "RGB")


def check_resizable(image: Image.Image) -> Image.Image:
    """Return the image if transforms can resize it.

    Raises:
        UserError: If it is so narrow that enlarging its short side would take gigabytes, or the range of its pixel
            values is unknown.
    """
    _check_sides(image.height, image.width)
    if image.mode in ("I", "F"):
        raise UserError(f"mode {image.mode} has no known range of values; save it with 8 or 16 bits")
    return image


def upright(image: Image.Image) -> Image.Image:
    """Turn an image as its EXIF orientation says, as browsers do; damaged EXIF turns nothing."""
    return ImageOps.exif_transpose(image) if _orientation(image) != 1 else image


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # Pillow raises many kinds for damaged EXIF
        return 1


def _turned(values: NDArray[Any], stored: _Stored) -> NDArray[Any]:
    """Values (H, W, C) as the orientation says: transposed, then mirrored."""
    values = values.swapaxes(0, 1) if stored.orientation in (5, 6, 7, 8) else values
    values = values[::-1] if stored.orientation in (3, 4, 7, 8) else values
    return values[:, ::-1] if stored.orientation in (2, 3, 6, 7) else values


def _check_sides(height: int, width: int, channels: int = 1) -> None:
    if max(height, width) > 100 * min(height, width):
        raise UserError(f"{width} x {height} pixels; one side is more than 100 times the other")
    if height * width > MOST_PIXELS or channels > MOST_CHANNELS:
        raise UserError(f"{width} x {height} pixels of {channels} channels; resize it first")


def _samples(page: Any) -> NDArray[Any]:
    """The pixels of a page of a TIFF file, (H, W, C)."""
    try:
        values: NDArray[Any] = page.asarray(maxworkers=1)
    except ValueError as error:
        if "imagecodecs" not in str(error):
            raise
        with extra("images", f"a TIFF file with {page.compression.name} compression"):
            raise ModuleNotFoundError(name="imagecodecs") from error
    return np.moveaxis(values, 0, -1) if page.axes == "SYX" else np.atleast_3d(values)


def _sixteen_bits(source: Path | bytes, image: Image.Image, kind: int) -> NDArray[np.uint16]:
    """The values of a PNG file of 16 bits, (H, W, C), given its image and its type of colors."""
    if kind == 0:
        return np.asarray(image, np.uint16)[..., None]
    if kind == 4:
        raise UserError("gray of 16 bits with opacity; save it without opacity, or with 8 bits")
    halves = []
    for order in "BL":  # of each two bytes the first, as if they were the larger part, then the second
        with open_undecoded(source, ("PNG",)) as half:
            half.tile = [tile._replace(args=f"{half.mode};16{order}") for tile in half.tile]  # type: ignore[attr-defined]
            halves.append(np.asarray(half, np.uint16))
    return halves[0] * 256 + halves[1]


def _head(source: Path | bytes) -> bytes:
    """The first bytes, which say the format."""
    if isinstance(source, bytes):
        return source[:32]
    if not source.is_file():  # opening a pipe would wait forever
        raise FileNotFoundError("no such file")
    with source.open("rb") as file:
        return file.read(32)


def _formats(head: bytes) -> tuple[str, ...]:
    """Formats of Pillow that are tried."""
    if head[4:8] != b"ftyp":
        return *FORMATS, "TIFF"
    if head[8:12] in (b"avif", b"avis"):
        Image.init()
        if "AVIF" not in Image.OPEN:
            raise UserError("an AVIF image, which Pillow reads from version 11.3 on; pip install --upgrade pillow")
        return ("AVIF",)
    with extra("images", "a HEIC image"):
        import pillow_heif

        pillow_heif.register_heif_opener()
    return ("HEIF",)
