"""Read images: all code that decodes image files or bytes calls :class:`ImageReader`."""

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
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from lgx.errors import UserError
from lgx.host.extras import extra
from lgx.host.safety import FORMATS, check_file, error_line, open_image, open_undecoded

MOST_CHANNELS = 16
SOME = 64
"""Largest number of files whose values are compared with the expected range."""
_COLORS = ("MINISWHITE", "MINISBLACK", "RGB", "SEPARATED")
_ENDS = {b"\xff\xd8\xff": b"\xff\xd9", b"\x89PNG\r\n\x1a\n": b"IEND\xaeB`\x82"}
"""First and last bytes of JPEG and PNG files."""
_NUMPY = b"\x93NUMPY"
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


class _Stored(NamedTuple):
    """Pixels, upright, (H, W, C), of ``bits`` bits, for images that Pillow does not support in full depth.

    ``alpha`` is ``A`` if the last channel is the opacity, ``a`` if the others are multiplied by it; 0 may be white.
    """

    values: NDArray[Any]
    bits: int
    alpha: str = ""
    inverted: bool = False


@dataclass(frozen=True)
class ImageReader:
    """Decodes images, turned as their EXIF orientation says.

    Args:
        channels: 1 or 3 for gray and RGB images, over white where they are transparent; else the number of channels:
            bands or pages of TIFF, arrays of numpy, or the channels of PNG and WebP.
        value_range: Values of files of more than 8 bits that become 0 and 255. Default: the whole range of unsigned
            integers of at most 16 bits; 0 and 1 for floating-point numbers.
    """

    channels: int = 3
    value_range: tuple[float, ...] = ()

    @property
    def is_photo(self) -> bool:
        """Whether images are gray or RGB."""
        return self.channels in (1, 3)

    def __call__(self, source: Path | bytes) -> Image.Image | Tensor:
        """Decode a file or its bytes; the first bytes determine the format.

        Returns:
            An image of mode L or RGB, as it is stored; for other numbers of channels pixels, uint8 (C, H, W).

        Raises:
            UserError: If it is intact, but of another form than expected.
            Exception: Any exception of Pillow, numpy or tifffile for a damaged or unknown file.
        """
        stored = self._open(source)
        if isinstance(stored, Image.Image):
            return opaque(upright(stored))
        if self.is_photo:
            return opaque(self._photo(stored))
        _check_shape(stored.values.shape, (self.channels,))
        return torch.from_numpy(np.ascontiguousarray(np.moveaxis(self._scaled(stored, stored.values), -1, 0)))

    def damage(self, path: Path) -> str:
        """Why a file cannot be read; empty if its beginning, and of JPEG and PNG its end, are those of an image."""
        try:
            check_file(path)
            with path.open("rb") as file:
                head = file.read(32)
                file.seek(-min(12, file.seek(0, io.SEEK_END)), io.SEEK_END)
                tail = file.read()
            end = next((end for start, end in _ENDS.items() if head.startswith(start)), None)
            if end is not None and not tail.endswith(end):
                self(path)  # other bytes may follow the image
            elif end is None and not head.startswith(_NUMPY) and head[:4] not in _TIFF:
                open_undecoded(path, _formats(head)).close()
        except UnidentifiedImageError:  # whose message repeats the path
            return "not an image"
        except Exception as error:  # any of Pillow's
            return error_line(error)
        return ""

    def check_values(self, name: str, sources: Iterable[Path | bytes]) -> tuple[str, str]:
        """Compare the values of some images of more than 8 bits with the range of their scaling.

        Args:
            name: Name of the set, for the lines.
            sources: The images; the first 64 are opened.

        Returns:
            A line with the range, and a message if it is wrong; both empty if all images have 8 bits.
        """
        found = [sample for source in islice(sources, SOME) if (sample := self._sample(source)) is not None]
        if not found:
            return "", ""
        values, bits = np.concatenate([sample for sample, _ in found]), max(bits for _, bits in found)
        line = f"{name}: files of more than 8 bits have values of about {values.min():g} to {values.max():g}"
        if self.value_range:
            low, high = self.value_range
            line += f"; {low:g} to {high:g} become 0 to 255 (data.value_range)"
            outside, used = ((values < low) | (values > high)).mean(), values.max() - values.min()
            if outside <= 0.5 and used >= (high - low) / SOME:
                return line, ""
            return "", f"data.value_range: {line}; give the range of the files"
        if values.dtype.kind != "u" or values.max() >= 2 ** (bits - 1) - 1:
            line += "; the whole range of their type becomes 0 to 255 (data.value_range)"
            return line + _with_fewer_bits([sample for sample, _ in found], bits), ""
        top = 2 ** int(values.max()).bit_length() - 1
        few = f"{line}, and {bits} bits would leave few levels; give data.value_range [0, {top}]"
        return "", f"{few}, or [0, {2**bits - 1}] if they are only dark"

    def _sample(self, source: Path | bytes) -> tuple[NDArray[Any], int] | None:
        """Some values of an image of more than 8 bits, and its bits; None for other or unreadable images."""
        try:
            stored = self._open(source)
        except Exception:  # decoding it will report the error
            return None
        if isinstance(stored, Image.Image) or stored.bits <= 8:
            return None
        values = stored.values.ravel()[:: stored.values.size // 10_000 + 1]
        return values[np.isfinite(values)], stored.bits

    def _open(self, source: Path | bytes) -> "_Stored | Image.Image":
        head = _head(source)
        if head.startswith(_NUMPY) and isinstance(source, Path):
            return self._array(source)
        if head[:4] in _TIFF and (stored := self._tiff(source)) is not None:
            return stored
        image = open_image(source, _formats(head))
        if image.mode == "I" and image.format == "PPM":  # which says its range: Pillow has scaled it to 16 bits
            return Image.fromarray(np.rint(np.asarray(image) / 257).astype(np.uint8))
        if image.format == "PNG" and head[24] == 16:  # of colors Pillow drops 8 of the 16 bits
            return _sixteen_bits(_samples_of_png(source, image, head[25]), image, self.is_photo)
        if self.is_photo:
            return image
        if image.mode not in ("LA", "RGBA"):
            raise UserError(f"an image of mode {image.mode}; expected {self.channels} channels, see data.in_chans")
        return _Stored(np.asarray(upright(image)), 8)

    def _array(self, path: Path) -> _Stored:
        """A file of numpy: (H, W), (H, W, C) or (C, H, W)."""
        values, counts = np.load(path, allow_pickle=False, mmap_mode="r"), (1, 3) if self.is_photo else (self.channels,)
        values = values[..., None] if values.ndim == 2 and self.is_photo else values
        if values.ndim == 3 and values.shape[0] in counts:
            if values.shape[-1] in counts:
                raise UserError(f"an array of shape {values.shape} may have its channels first or last; save another")
            values = np.moveaxis(values, 0, -1)
        _check_shape(values.shape, counts)
        return _Stored(np.asarray(values), 1 if values.dtype == bool else 8 * values.dtype.itemsize)

    def _tiff(self, source: Path | bytes) -> _Stored | None:
        """The pages of a TIFF file; None for gray and RGB of 8 bits, which Pillow reads with all their compressions."""
        import tifffile

        logging.getLogger("tifffile").setLevel(logging.CRITICAL)
        with tifffile.TiffFile(io.BytesIO(source) if isinstance(source, bytes) else source) as file:
            known: list[Any] = [*islice(file.pages, 4 * MOST_CHANNELS)]
            pages = [page for page in known if not page.subfiletype & 5]  # no small copy and no mask
            first = pages[0]
            kind, orientation = first.photometric.name, first.tags.get(ExifTags.Base.Orientation)
            if self.is_photo:
                if (count := sum(page.shape == first.shape for page in pages)) > 1:
                    raise UserError(f"{count} pages of one size; save one, or give data.in_chans if they are channels")
                is_plain = first.bitspersample <= 8 and first.sampleformat == 1
                if is_plain and (kind != "MINISBLACK" or first.samplesperpixel < 3):
                    return None
                pages = [first]
            elif len({(page.shape, page.dtype, page.photometric) for page in pages}) > 1:
                raise UserError("pages of several sizes, types or meanings; save all channels alike")
            if kind not in _COLORS or first.axes not in ("YX", "YXS", "SYX"):
                raise UserError(f"a TIFF file of kind {kind}; save it as gray, RGB or channels")
            _check_shape((first.imagelength, first.imagewidth, len(pages) * first.samplesperpixel))
            values = np.concatenate([_samples(page) for page in pages], axis=-1)
            alpha = {1: "a", 2: "A"}.get((0, *first.extrasamples)[-1], "") if self.is_photo else ""
            turned = _turned(values, 1 if orientation is None else int(orientation.value))
            return _Stored(turned, first.bitspersample, alpha, kind == "MINISWHITE")

    def _scaled(self, stored: _Stored, values: NDArray[Any]) -> NDArray[np.uint8]:
        """Some of the values as uint8."""
        kind, bits, (low, high) = values.dtype.kind, stored.bits, (0.0, 2.0**stored.bits - 1)
        if kind == "f" and not np.isfinite(values).all():
            raise UserError("values that are not finite; replace them")
        if self.value_range and bits > 8:
            low, high = self.value_range
        elif kind == "f" and values.min() >= 0 and values.max() <= 1:
            high = 1
        elif kind not in "ub" or bits > 16:
            raise UserError(f"{values.dtype} has no known range; give data.value_range, or save 8 or 16 bits")
        scaled: Any = np.interp(values, (low, high), (255, 0) if stored.inverted else (0, 255)) if bits != 8 else values
        pixels: NDArray[np.uint8] = np.rint(scaled).astype(np.uint8)
        return 255 - pixels if bits == 8 and stored.inverted else pixels

    def _photo(self, stored: _Stored) -> Image.Image:
        """A gray or RGB image with its opacity, in full depth."""
        colors = stored.values[..., : stored.values.shape[-1] - len(stored.alpha)]
        _check_shape(colors.shape, (1, 3))
        pixels = self._scaled(stored, colors)
        if stored.alpha:
            opacity = ImageReader()._scaled(stored._replace(inverted=False), stored.values[..., -1:])
            pixels = np.dstack([pixels, opacity])
        mode = ("L" if colors.shape[-1] == 1 else "RGB") + stored.alpha
        image = Image.frombytes(mode, pixels.shape[1::-1], pixels.tobytes())
        return image.convert(mode.upper()) if stored.alpha == "a" else image


def opaque(image: Image.Image) -> Image.Image:
    """Convert an image to mode L (gray) or RGB; transparent parts are shown over white."""
    _check_shape((image.height, image.width, 1))
    if image.mode in ("I", "F"):
        raise UserError(f"mode {image.mode} has no known range of values; save it with 8 or 16 bits")
    if image.mode.startswith("I;16"):  # Pillow would clip it to white
        image = ImageReader()._photo(_sixteen_bits(np.asarray(image)[..., None], image))
    gray = image.mode in ("1", "L", "LA", "La")
    if image.has_transparency_data:
        # Pillow would show the colors that transparent pixels hide.
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    mode = "L" if gray else "RGB"
    return image if image.mode == mode else image.convert(mode)


def upright(image: Image.Image) -> Image.Image:
    """Turn an image as its EXIF orientation says, as browsers do; damaged EXIF turns nothing."""
    return ImageOps.exif_transpose(image) if _orientation(image) != 1 else image


def _sixteen_bits(values: NDArray[Any], image: Image.Image, is_photo: bool = True) -> _Stored:
    """The values (H, W, C) of an image of 16 bits, with the opacity that its transparent color means."""
    hidden = image.info.get("transparency") if is_photo else None
    if hidden is not None:
        values = np.dstack([values, (values != hidden).any(axis=-1) * np.uint16(65535)])
    return _Stored(_turned(values, _orientation(image)), 16, "" if values.shape[-1] % 2 else "A")


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # Pillow raises many kinds for damaged EXIF
        return 1


def _turned(values: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Values (H, W, C) as EXIF's orientation says: transposed, then mirrored."""
    values = values.swapaxes(0, 1) if orientation in (5, 6, 7, 8) else values
    values = values[::-1] if orientation in (3, 4, 7, 8) else values
    return values[:, ::-1] if orientation in (2, 3, 6, 7) else values


def _check_shape(shape: tuple[int, ...], counts: tuple[int, ...] = tuple(range(1, MOST_CHANNELS + 1))) -> None:
    """Refuse another shape than (H, W, C) with one of these numbers of channels, and extreme proportions."""
    if len(shape) != 3 or shape[-1] not in counts:
        expected = f"{' or '.join(map(str, counts[:3]))} channels"
        raise UserError(f"an image of shape {' x '.join(map(str, shape))}; expected {expected}, see data.in_chans")
    height, width, _ = shape
    if max(height, width) > 100 * min(height, width):
        raise UserError(f"{width} x {height} pixels; one side is more than 100 times the other")


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


def _samples_of_png(source: Path | bytes, image: Image.Image, kind: int) -> NDArray[np.uint16]:
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


def _with_fewer_bits(samples: list[NDArray[Any]], bits: int) -> str:
    """Words for files, at least an eighth of all, whose values take four bits less than those of others."""
    most = 2 ** (bits - 4) - 1
    low = sum(bool(sample.max(initial=0) <= most) for sample in samples) if samples[0].dtype.kind == "u" else 0
    if 8 * low < len(samples):
        return ""
    return f"; {low} of {len(samples)} files have no value above {most:,}: of {bits - 4} bits, they would be dark"


def _head(source: Path | bytes) -> bytes:
    """The first bytes, which say the format."""
    if isinstance(source, bytes):
        return source[:32]
    check_file(source)
    with source.open("rb") as file:
        return file.read(32)


def _formats(head: bytes) -> tuple[str, ...]:
    """Formats of Pillow that are tried."""
    if head[4:8] != b"ftyp":
        return *FORMATS, "TIFF"
    if head[8:12] in (b"avif", b"avis"):
        return ("AVIF",)
    with extra("images", "a HEIC image"):
        import pillow_heif

        pillow_heif.register_heif_opener()
    return ("HEIF",)
