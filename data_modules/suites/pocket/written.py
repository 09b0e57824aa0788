"""The pocket tasks of characters: real handwritten digits, glyphs of many fonts, digits over clutter."""

import functools
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from data_modules.suites.pocket.drawing import SIZE, Array, Rng, backgrounds, colors, finish, paint

GLYPHS = tuple("ABDEFGHJKLMNPQRTUYabdeghqrty23457ΓΔΘΛΞΠΣΦΨΩαβγδλμ")[:48]
FACES = (
    *(f"DejaVu{f}.ttf" for f in ("Sans", "Sans-Bold", "Sans-Oblique", "SansMono", "SansMono-Bold", "SansMono-Oblique")),
    *(f"DejaVu{f}.ttf" for f in ("Serif", "Serif-Bold", "Serif-Italic", "Serif-BoldItalic")),
    *(f"STIXGeneral{f}.ttf" for f in ("", "Bol", "Italic", "BolIta")),
)
_BOX = 64  # size in pixels at which a character is drawn once; later it is only transformed


def real_digits() -> tuple[Array, Array]:
    """Scikit-learn's 1,797 scanned digits, enlarged from 8 to 32 pixels.

    Returns:
        Images (N, 32, 32, 3) of bytes without duplicates, and labels (N,).
    """
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    _, first = np.unique(pixels, axis=0, return_index=True)
    first.sort()
    small = (pixels[first].reshape(-1, 8, 8) * 255 / 16 + 0.5).astype(np.uint8)
    large = [np.asarray(Image.fromarray(image).resize((SIZE, SIZE), Image.Resampling.BICUBIC)) for image in small]
    return np.repeat(np.stack(large)[..., None], 3, -1), labels[first]


def glyphs(rng: Rng, name: str, n: int) -> Array:
    """A character in any of the fonts, like ink on paper, slightly rotated and sheared."""
    masks = _written(rng, name, n, (0.6, 0.85), 0.2, 0.15)
    paper = np.ones((n, SIZE, SIZE, 3)) * rng.uniform(0.8, 1, (n, 1, 1, 1))
    return finish(rng, paint(paper, masks, colors(rng, n, value=rng.uniform(0, 0.35, n))), noise=0.05, light=0.1)


def clutter(rng: Rng, name: str, n: int) -> Array:
    """A lit digit of any color on a dark wall, between parts of other digits.

    Light on dark like the scans of :func:`real_digits`, so that features learned from those are useful here.
    """
    canvas = backgrounds(rng, n, 0.0, 0.12, 0.1)
    light = colors(rng, n, saturation=rng.uniform(0, 0.5, n), value=rng.uniform(0.75, 1, n))
    x = np.arange(SIZE)
    for side, edge in ((-1, x < SIZE * 0.4), (1, x > SIZE * 0.6)):  # the pixels rolled in at the other edge are removed
        others = np.stack([_written(rng, str(d), 1, (0.5, 0.8), 0.15, 0.1)[0] for d in rng.integers(0, 10, n)])
        canvas = paint(canvas, np.roll(others, side * int(SIZE * 0.62), axis=2) * edge, light)
    canvas = paint(canvas, _written(rng, name, n, (0.95, 1.1), 0.15, 0.06), light)
    return finish(rng, canvas, noise=0.06, light=0.25)


def _written(rng: Rng, character: str, n: int, height: tuple[float, float], angle: float, shift: float) -> Array:
    """Masks (N, S, S) of one character in random fonts, sizes, slants and places."""
    masks = np.empty((n, SIZE, SIZE))
    for i in range(n):
        mask = _character(FACES[rng.integers(len(FACES))], character)
        s = _BOX / (SIZE * rng.uniform(*height))
        a, slant = rng.uniform(-angle, angle), rng.uniform(-0.25, 0.25)
        dx, dy = rng.uniform(-shift, shift, 2) * SIZE / 2
        m = s * np.array([[np.cos(a), np.sin(a) + slant], [-np.sin(a), np.cos(a)]])
        center = np.array([_BOX / 2, _BOX / 2]) - m @ np.array([SIZE / 2 + dx, SIZE / 2 + dy])
        matrix = (m[0, 0], m[0, 1], center[0], m[1, 0], m[1, 1], center[1])
        turned = mask.transform((SIZE, SIZE), Image.Transform.AFFINE, matrix, Image.Resampling.BICUBIC)
        masks[i] = np.asarray(turned, np.float64) / 255
    return masks


@functools.cache
def _character(face: str, character: str) -> Image.Image:
    """A character, white on black, centered in a square of side ``_BOX`` that its ink fills, blurred for sampling."""
    import matplotlib

    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / face
    font = ImageFont.truetype(str(path), _BOX, layout_engine=ImageFont.Layout.BASIC)
    left, top, right, bottom = font.getbbox(character)
    canvas = Image.new("L", (2 * _BOX, 2 * _BOX))
    ImageDraw.Draw(canvas).text((_BOX - (left + right) / 2, _BOX - (top + bottom) / 2), character, fill=255, font=font)
    canvas = canvas.crop((_BOX // 2, _BOX // 2, _BOX // 2 + _BOX, _BOX // 2 + _BOX))
    # Half the resolution and back: one pixel of the finished image spans about two of these.
    return canvas.resize((_BOX // 2, _BOX // 2), Image.Resampling.BOX).resize((_BOX, _BOX), Image.Resampling.BILINEAR)
