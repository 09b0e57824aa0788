"""Files of images of many kinds, with what they show by the words of the formats, Pillow, tifffile and numpy."""

import io
import struct
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tifffile
from PIL import ExifTags, Image

SIZE = HEIGHT, WIDTH = 12, 16
Known = Iterator[tuple[str, bytes, Any]]
"""Name, content, and the bytes that are shown, (H, W, C), or None for a file that is to be refused."""
_OF_PILLOW = """color.jpg jpeg RGB; gray.jpg jpeg L; ink.jpg jpeg CMYK; lossy.webp webp RGB; 1.png png 1;
palette.png png P; palette.gif gif P; color.avif avif RGB; color.bmp bmp RGB; color.ppm ppm RGB; color.tif tiff RGB;
ink.tif tiff CMYK; palette.tif tiff P; LZW.tif tiff RGB tiff_lzw; jpeg.tif tiff RGB jpeg; 1.tif tiff 1 group4"""
"""Name, format, mode, and compression of files of 8 bits and less."""


def scaled(values: Any, high: float = 65535) -> Any:
    """Values of 0 to ``high`` as bytes."""
    return np.floor(np.clip(np.asarray(values, np.float64), 0, high) / high * 255 + 0.5).astype(np.uint8)


def stored(shown: Any, orientation: int) -> Any:
    """How a file of an orientation of EXIF stores an image."""
    turned = shown.swapaxes(0, 1) if orientation > 4 else shown
    rows, columns = (-1 if orientation in mirrored else 1 for mirrored in ((3, 4, 6, 7), (2, 3, 7, 8)))
    return np.ascontiguousarray(turned[::rows, ::columns])


def exif(orientation: int) -> Image.Exif:
    """EXIF with an orientation."""
    tags = Image.Exif()
    tags[ExifTags.Base.Orientation] = orientation
    return tags


def pil(pixels: Any, form: str, mode: str | None = None, **options: Any) -> bytes:
    """A file of Pillow."""
    image, buffer = Image.fromarray(pixels), io.BytesIO()
    (image.convert(mode) if mode else image).save(buffer, form, **options)
    return buffer.getvalue()


def npy(values: Any) -> bytes:
    """A file of numpy."""
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def tar(members: Iterable[tuple[str, bytes]]) -> bytes:
    """A tar file of names and contents."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def png(values: Any, kind: int, orientation: int = 1) -> bytes:
    """A PNG file of 16 bits, which Pillow cannot write for colors."""
    header = struct.pack(">IIBBBBB", *values.shape[1::-1], 16, kind, 0, 0, 0)
    lines = zlib.compress(b"".join(b"\0" + line.astype(">u2").tobytes() for line in values))
    parts = {b"IHDR": header, b"eXIf": exif(orientation).tobytes()[6:], b"IDAT": lines, b"IEND": b""}
    found = b"\x89PNG\r\n\x1a\n"
    for name, data in parts.items():
        found += struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return found


def tiff(*pages: Any, turned: int = 1, small: bool = False, byteorder: Any = "<", **options: Any) -> bytes:
    """A file of tifffile, with a smaller copy of each page if ``small``."""
    buffer, common = io.BytesIO(), {"extratags": [(274, 3, 1, turned, True)], "metadata": None, "contiguous": False}
    with tifffile.TiffWriter(buffer, byteorder=byteorder) as writer:
        for page in pages:
            planes: dict[str, Any] = {"planarconfig": "contig"} if page.ndim == 3 else {}
            writer.write(page, **(planes | common | {"photometric": "minisblack"} | options))
        for page in pages * small:
            writer.write(page[::2, ::2], photometric="minisblack", subfiletype=1)
    return buffer.getvalue()


def over_white(color: Any, opacity: Any) -> Any:
    """What is seen of pixels over white."""
    image = Image.fromarray(np.dstack([np.broadcast_to(color, (*SIZE, 3)), opacity]).astype(np.uint8))
    return np.asarray(Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB"))


def photographs(rng: np.random.Generator, high: int = 65535) -> Known:
    """Gray and RGB files; ``high`` is the largest value of files of more than 8 bits that is told apart."""
    color, gray, opacity = (rng.integers(0, 256, shape, np.uint8) for shape in ((*SIZE, 3), SIZE, SIZE))
    wide, wide3 = (rng.integers(0, 65536, shape, np.uint16) for shape in (SIZE, (*SIZE, 3)))
    share, is_known = rng.random((*SIZE, 3), np.float32), high != 65535
    deep, deep3, floats = scaled(wide, high)[..., None], scaled(wide3, high), scaled(share, high if is_known else 1)
    for words in _OF_PILLOW.split(";"):
        name, form, mode, *compression = words.split()
        options = {"compression": compression[0]} if compression else {}
        content = pil(gray if mode in "L1" else color, form, mode, **options)
        shown = Image.open(io.BytesIO(content)).convert("L" if mode in "L1" else "RGB")
        yield name, content, np.atleast_3d(np.asarray(shown))
    frames = {"save_all": True, "append_images": [Image.fromarray(color[::-1].copy())], "lossless": True}
    alpha, over = np.dstack([color, opacity]), over_white(color, opacity)
    for form in ("png", "webp"):
        yield f"frames.{form}", pil(color, form, **frames), color
        yield f"alpha.{form}", pil(alpha, form, exact=True, lossless=True), over
    yield "alpha.tif", pil(alpha, "tiff"), over
    yield "gray alpha.png", pil(np.dstack([gray, opacity]), "png"), over_white(gray[..., None], opacity)[..., :1]
    hidden = np.where(wide[..., None] == wide[3, 4], 255, deep)
    yield "hidden 16.png", pil(wide, "png", transparency=int(wide[3, 4])), hidden
    yield "alpha 16.png", png(np.dstack([wide3, wide]), 6), over_white(deep3, scaled(wide))
    yield "gray alpha 16.png", png(np.dstack([wide, wide]), 4), None
    given = (wide // 16).astype(">u2")
    yield "12.pgm", b"P5 16 12 4095\n" + given.tobytes(), scaled(np.floor(given / 4095 * 65535 + 0.5))[..., None]
    for turned in range(1, 9):
        yield f"turned {turned}.png", pil(stored(color, turned), "png", exif=exif(turned)), color
        yield f"turned {turned}.tif", tiff(stored(color, turned), turned=turned, photometric="rgb"), color
        yield f"turned 16 {turned}.tif", tiff(stored(wide3, turned), turned=turned), deep3
        yield f"turned gray 16 {turned}.png", png(stored(wide[..., None], turned), 0, turned), deep
        yield f"turned 16 {turned}.png", png(stored(wide3, turned), 2, turned), deep3
    yield "LZW 16.tif", pil(wide, "tiff", compression="tiff_lzw"), deep
    yield "last byte first 16.tif", tiff(wide, byteorder=">", compression="zlib"), deep
    yield "white is 0.tif", tiff(gray, photometric="miniswhite"), 255 - gray[..., None]
    negative = scaled(high - np.minimum(wide, high), high)[..., None]
    yield "white is 0, 16.tif", tiff(wide, photometric="miniswhite"), negative
    yield "planar 16.tif", tiff(wide3.transpose(2, 0, 1), photometric="rgb", planarconfig="separate"), deep3
    of_alpha = {"photometric": "rgb", "extrasamples": ["unassalpha"]}
    yield "alpha 16.tif", tiff(np.dstack([wide3, wide]), **of_alpha), over_white(deep3, scaled(wide))
    yield "three bands.tif", tiff(color), color
    yield "overview 16.tif", tiff(wide, small=True), deep
    signed = wide.astype(np.int32) - 9
    yield "signed.tif", tiff(signed), scaled(signed, high)[..., None] if is_known else None
    yield "floats.tif", tiff(share), floats
    yield "floats.npy", npy(share), floats
    yield "gray.npy", npy(gray), gray[..., None]
    yield "NaN.npy", npy(np.where(share < 0.1, np.nan, share)), None
    yield "either.npy", npy(color[:3, :, :]), None
    yield "pages.tif", tiff(gray, gray), None
    yield "five bands.tif", tiff(rng.integers(0, 256, (*SIZE, 5), np.uint8)), None
    yield "damaged.tif", tiff(wide)[:200], None
    yield "damaged.png", pil(color, "png")[:200], None


def bands(rng: np.random.Generator, count: int) -> Known:
    """Files of several channels."""
    small = rng.integers(0, 256, (*SIZE, count), np.uint8)
    wide, share = rng.integers(0, 65536, small.shape, np.uint16), rng.random(small.shape, np.float32)
    for name, values, seen in (("8", small, small), ("16", wide, scaled(wide)), ("floats", share, scaled(share, 1))):
        first = values.transpose(2, 0, 1)
        yield f"{name}.npy", npy(values), seen
        yield f"{name} first.npy", npy(first), seen
        yield f"{name} planar.tif", tiff(first, planarconfig="separate"), seen
        yield f"{name} pages.tif", tiff(*first, small=True), seen
        yield f"{name} turned.tif", tiff(stored(values, 6), turned=6, compression="zlib"), seen
    pages, frames = [*small.transpose(2, 0, 1)], [Image.fromarray(small[..., k]) for k in range(1, count)]
    yield "white is 0.tif", tiff(*pages, photometric="miniswhite"), 255 - small
    yield "mixed.tif", tiff(*pages[1:], wide[..., 0]), None
    yield "palette.tif", tiff(*pages, photometric="palette", colormap=rng.integers(0, 9, (3, 256), np.uint16)), None
    yield "too few.tif", tiff(*pages[1:]), None
    yield "frames.png", pil(pages[0], "png", save_all=True, append_images=frames), None
    yield "ink.jpg", pil(small[..., [0, 0, 0]], "jpeg", "CMYK"), None
    if count in (2, 4):
        yield "alpha.png", pil(stored(small, 6), "png", exif=exif(6)), small
    if count == 4:
        yield "alpha 16.png", png(stored(wide, 6), 6, 6), scaled(wide)
