"""Vectorized drawing of many small images at once: places, shapes, patterns, colors.

Shapes: N images of S x S pixels, S = 32. Coordinates run from -1 to 1 over the image. A form is given by its signed
distance (N, S, S), negative inside, in units of the coordinates.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Number = Array | float
Rng = np.random.Generator

SIZE = 32
TAU = 2 * np.pi


def places(rng: Rng, n: int, scale: tuple[float, float], angle: float, shift: float) -> tuple[Array, Array, Array]:
    """Coordinates of objects with random size, rotation and position.

    Args:
        rng: Source of randomness.
        n: Number of images, N.
        scale: Smallest and largest size of the object; 1 fills the image.
        angle: Largest rotation in either direction, radians.
        shift: Largest displacement in either direction.

    Returns:
        u, v (N, S, S) and the scale (N, 1, 1) that converts object distances to image distances.
    """
    s = rng.uniform(*scale, (n, 1, 1))
    a = rng.uniform(-angle, angle, (n, 1, 1))
    dx, dy = rng.uniform(-shift, shift, (2, n, 1, 1))
    x, y = grid()
    x = x - dx
    y = y - dy
    return (np.cos(a) * x + np.sin(a) * y) / s, (np.cos(a) * y - np.sin(a) * x) / s, s


def grid() -> tuple[Array, Array]:
    """Image coordinates x, y (1, S, S) of the pixel centers; y increases downwards."""
    axis = (np.arange(SIZE) + 0.5) * 2 / SIZE - 1
    y, x = np.meshgrid(axis, axis, indexing="ij")
    return x[None], y[None]


def ink(distance: Array, scale: Array | float = 1.0) -> Array:
    """Coverage in [0, 1], anti-aliased over one pixel."""
    return np.clip(0.5 - distance * scale * SIZE / 2, 0, 1)


def circle(u: Array, v: Array, r: Number = 1.0) -> Array:
    """Disc of radius r."""
    return np.asarray(np.hypot(u, v) - r)


def box(u: Array, v: Array, a: Number, b: Number) -> Array:
    """Rectangle with half sides a, b."""
    return np.asarray(np.maximum(np.abs(u) - a, np.abs(v) - b))


def capsule(u: Array, v: Array, x0: Number, y0: Number, x1: Number, y1: Number, r: Number) -> Array:
    """Line from (x0, y0) to (x1, y1) with round ends of radius r."""
    dx = x1 - x0
    dy = y1 - y0
    t = np.clip(((u - x0) * dx + (v - y0) * dy) / (dx * dx + dy * dy + 1e-9), 0, 1)
    return np.asarray(np.hypot(u - x0 - t * dx, v - y0 - t * dy) - r)


def polygon(u: Array, v: Array, corners: int, r: float = 1.0) -> Array:
    """Regular polygon, one corner up."""
    sector = TAU / corners
    a = np.mod(np.arctan2(u, -v) + sector / 2, sector) - sector / 2
    return np.asarray(np.hypot(u, v) * np.cos(np.pi / corners - np.abs(a)) - r * np.cos(np.pi / corners))


def star(u: Array, v: Array, points: int = 5, inner: float = 0.45) -> Array:
    """Star whose radius falls from 1 at the points to ``inner`` between them."""
    sector = TAU / points
    a = np.abs(np.mod(np.arctan2(u, -v) + sector / 2, sector) - sector / 2) / (sector / 2)
    return np.hypot(u, v) - (1 - (1 - inner) * a)


def cross(u: Array, v: Array, arm: float = 0.33) -> Array:
    """Upright cross."""
    return np.minimum(box(u, v, 1.0, arm), box(u, v, arm, 1.0))


SHAPES: dict[str, Callable[[Array, Array], Array]] = {
    "disc": circle,
    "square": lambda u, v: box(u, v, 0.85, 0.85),
    "triangle": lambda u, v: polygon(u, v, 3, 1.15),
    "star": star,
    "cross": cross,
    "ring": lambda u, v: np.maximum(circle(u, v), 0.55 - np.hypot(u, v)),
    "crescent": lambda u, v: np.maximum(circle(u, v), 0.85 - np.hypot(u - 0.5, v)),  # without a displaced disc
    "hexagon": lambda u, v: polygon(u, v, 6),
}


def colors(rng: Rng, n: int, hue: Any = None, saturation: Any = None, value: Any = None) -> Array:
    """Colors (N, 1, 1, 3) in [0, 1]; arguments that are not given are drawn at random (value at least 0.35)."""
    h = np.broadcast_to(rng.random(n) if hue is None else hue, (n,)) % 1
    s = np.broadcast_to(rng.uniform(0, 1, n) if saturation is None else saturation, (n,))
    v = np.broadcast_to(rng.uniform(0.35, 1, n) if value is None else value, (n,))
    turns = [(h * 6 + k) % 6 for k in (5, 3, 1)]
    channels = [v * (1 - s * np.clip(np.minimum(k, 4 - k), 0, 1)) for k in turns]
    return np.stack(channels, -1)[:, None, None, :]


def backgrounds(rng: Rng, n: int, low: float = 0.0, high: float = 1.0, contrast: float = 0.5) -> Array:
    """Smooth colored backgrounds (N, S, S, 3): a random color and two random waves."""
    x, y = grid()
    base = rng.uniform(low, high, (n, 1, 1, 3))
    for _ in range(2):
        fx, fy = rng.uniform(-2, 2, (2, n, 1, 1))
        wave = np.sin(fx * x + fy * y + rng.uniform(0, TAU, (n, 1, 1)))[..., None]
        base = base + wave * rng.uniform(-contrast, contrast, (n, 1, 1, 3)) / 2
    return np.clip(base, 0, 1)


def paint(canvas: Array, coverage: Array, color: Array) -> Array:
    """Paint a color (N, 1, 1, 3) or an image over a canvas (N, S, S, 3) with the opacity coverage (N, S, S)."""
    alpha = coverage[..., None]
    return np.asarray(canvas * (1 - alpha) + color * alpha)


def finish(rng: Rng, canvas: Array, noise: float = 0.04, light: float = 0.2) -> Array:
    """Change the brightness, add sensor noise, and convert to bytes (N, S, S, 3)."""
    n = len(canvas)
    canvas = canvas * rng.uniform(1 - light, 1 + light, (n, 1, 1, 1))
    canvas = canvas + rng.normal(0, 1, canvas.shape).astype(np.float32) * noise
    return np.clip(canvas * 255 + 0.5, 0, 255).astype(np.uint8)
