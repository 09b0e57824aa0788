"""The pocket tasks drawn by formulas. Every function draws n images (n, 32, 32, 3) of one class."""

from collections.abc import Callable

import numpy as np

from data_modules.suites.pocket.drawing import (
    SHAPES,
    SIZE,
    TAU,
    Array,
    Rng,
    backgrounds,
    box,
    capsule,
    circle,
    colors,
    cross,
    finish,
    grid,
    ink,
    paint,
    places,
    polygon,
)

Pattern = Callable[[Array, Array, Rng], Array]


def _wave(t: Array) -> Array:
    return 0.5 + 0.5 * np.sin(t)


def _cells(u: Array, v: Array, rng: Rng) -> Array:
    points = rng.uniform(-6, 6, (len(u), 2, 24, 1, 1))
    distance = np.hypot(u[:, None] - points[:, 0], v[:, None] - points[:, 1])
    nearest = np.partition(distance, 1, axis=1)[:, :2]
    walls: Array = np.clip((nearest[:, 1] - nearest[:, 0]) / 0.8, 0, 1)
    return walls


def _spots(u: Array, v: Array, rng: Rng) -> Array:
    points = rng.uniform(-6, 6, (len(u), 2, 30, 1, 1))
    nearest: Array = np.hypot(u[:, None] - points[:, 0], v[:, None] - points[:, 1]).min(1)
    return (nearest < 0.55).astype(np.float64)


TEXTURES: dict[str, Pattern] = {
    "striped": lambda u, v, rng: _wave(u * 3),
    "banded": lambda u, v, rng: (_wave(u * 3) > 0.8).astype(np.float64),
    "checked": lambda u, v, rng: (np.sin(u * 2) * np.sin(v * 2) > 0).astype(np.float64),
    "dotted": lambda u, v, rng: (np.sin(u * 2.4) * np.sin(v * 2.4) > 0.45).astype(np.float64),
    "latticed": lambda u, v, rng: np.maximum(_wave(u * 2.4), _wave(v * 2.4)) ** 8,
    "wavy": lambda u, v, rng: _wave(u * 3 + 1.8 * np.sin(v * 1.6)),
    "zigzagged": lambda u, v, rng: _wave(u * 3 + 2.2 * np.abs(np.mod(v * 0.8, 2) - 1)),
    "bricked": lambda u, v, rng: np.minimum(_wave(v * 4 + 1.5), _wave(u * 2 + np.pi * (np.floor(v * 2 / np.pi) % 2))),
    "ringed": lambda u, v, rng: _wave(np.hypot(u, v) * 3),
    "radial": lambda u, v, rng: _wave(np.arctan2(v, u) * 9),
    "cellular": _cells,
    "speckled": _spots,
}


def textures(rng: Rng, name: str, n: int) -> Array:
    """A pattern of any colors, orientation and grain: only the local structure determines the class."""
    u, v, _ = places(rng, n, (0.16, 0.3), np.pi, 0.5)
    pattern = TEXTURES[name](u, v, rng)[..., None]
    a, b = colors(rng, n), colors(rng, n)
    close = np.abs(a - b).sum(-1, keepdims=True) < 0.6
    b = np.where(close, 1 - a, b)
    return finish(rng, a * pattern + b * (1 - pattern), noise=0.08)


SIGN_SHAPES: dict[str, Callable[[Array, Array], Array]] = {
    "round": circle,
    "triangular": lambda u, v: polygon(u, v + 0.12, 3, 1.15),
    "octagonal": lambda u, v: polygon(u * np.cos(0.39) - v * np.sin(0.39), u * np.sin(0.39) + v * np.cos(0.39), 8),
}
SIGN_HUES = {"red": 0.0, "blue": 0.61}
SYMBOLS: dict[str, Callable[[Array, Array], Array]] = {
    "bar": lambda u, v: box(u, v, 0.5, 0.14),
    "post": lambda u, v: box(u, v, 0.14, 0.5),
    "cross": lambda u, v: cross(u * 2, v * 2) / 2,
    "dot": lambda u, v: circle(u, v, 0.3),
}
SIGNS = tuple(f"{shape} {hue} {symbol}" for shape in SIGN_SHAPES for hue in SIGN_HUES for symbol in SYMBOLS)


def signs(rng: Rng, name: str, n: int) -> tuple[Array, Array]:
    """Road signs, and where their faces are, (n, 32, 32) in [0, 1]; several classes share shape, color and symbol."""
    shape, hue, symbol = name.split()
    u, v, s = places(rng, n, (0.6, 0.85), 0.2, 0.18)
    canvas = backgrounds(rng, n, 0.1, 0.8)
    h = SIGN_HUES[hue] + rng.normal(0, 0.025, n)
    color = colors(rng, n, h, rng.uniform(0.55, 0.95, n), rng.uniform(0.5, 0.95, n))
    face = ink(SIGN_SHAPES[shape](u, v), s)
    canvas = paint(canvas, face, color)
    pale = colors(rng, n, 0.12, rng.uniform(0, 0.2, n), rng.uniform(0.75, 1, n))
    canvas = paint(canvas, ink(SYMBOLS[symbol](u, v), s), pale)
    return finish(rng, canvas, noise=0.06, light=0.45), face


AIRCRAFT: dict[str, dict[str, float]] = {
    f"{wing} {tail} {engines}": {"sweep": sweep, "tail": t, "engines": e}
    for wing, sweep in (("straight", 0.0), ("swept", 0.45), ("delta", 0.85))
    for tail, t in (("plain", 0.0), ("canard", 1.0))
    for engines, e in (("twin", 1.0), ("bare", 0.0))
}


def silhouettes(rng: Rng, name: str, n: int) -> Array:
    """An aircraft from below, dark on a sky: classes differ in wing sweep, tail and engines only."""
    kind = AIRCRAFT[name]
    u, v, s = places(rng, n, (0.75, 0.95), 0.7, 0.12)

    def jitter(mean: float, spread: float) -> Array:
        return mean + rng.uniform(-spread, spread, (n, 1, 1))

    span, chord, sweep = jitter(0.9, 0.08), jitter(0.17, 0.03), jitter(kind["sweep"], 0.06)
    wing_at = jitter(-0.1, 0.05) - kind["sweep"] * 0.3
    along = np.abs(u) / span
    delta = 0.35 if kind["sweep"] > 0.6 else 0.0
    half = (chord + delta * (1 - along)) * (1 - 0.4 * along)
    wing = np.maximum(np.abs(v - wing_at - sweep * along - delta) - half, np.abs(u) - span)
    body = capsule(u, v, 0.0, jitter(-0.8, 0.05), 0.0, jitter(0.75, 0.05), jitter(0.12, 0.015))
    plane_at = -0.62 if kind["tail"] else 0.75
    small = np.maximum(np.abs(v - plane_at - 0.2 * np.abs(u)) - 0.09, np.abs(u) - jitter(0.36, 0.04))
    shape = np.minimum(np.minimum(wing, body), small)
    if kind["engines"]:
        at = jitter(0.42, 0.04)
        front = wing_at + sweep * at / span - 0.2
        shape = np.minimum(shape, capsule(np.abs(u), v, at, front, at, front + 0.3, 0.085))
    canvas = np.clip(backgrounds(rng, n, 0.55, 0.9, 0.3), 0, 1)
    return finish(rng, paint(canvas, ink(shape, s), rng.uniform(0.05, 0.35, (n, 1, 1, 1)) * np.ones(3)), noise=0.05)


def persons(rng: Rng, name: str, n: int) -> Array:
    """A walking person, or an object similar to one: a pole, a tree, a box, parts of a person out of order."""
    u, v, s = places(rng, n, (0.7, 0.95), 0.08, 0.2)
    gray = rng.uniform(0.25, 0.75, (n, 1, 1, 1))
    x, y = grid()
    canvas = np.repeat(gray + 0.15 * rng.normal(0, 1, (n, 1, 1, 1)) * y[..., None], 3, -1)
    for _ in range(3):  # street furniture in the background, in both classes
        at, width = rng.uniform(-1, 1, (n, 1, 1)), rng.uniform(0.03, 0.2, (n, 1, 1))
        top, tone = rng.uniform(-1, 0.5, (n, 1, 1)), rng.uniform(0.1, 0.9, (n, 1, 1, 1))
        canvas = paint(canvas, ink(np.maximum(np.abs(x - at) - width, top - y)), tone)

    def value(low: float, high: float) -> Array:
        return rng.uniform(low, high, (n, 1, 1))

    head, torso, leg, arm = value(0.13, 0.18), value(0.15, 0.22), value(0.06, 0.09), value(0.04, 0.07)
    stride, swing = value(0.06, 0.34), value(0.05, 0.3)
    parts = [circle(u, v + 0.72, head), capsule(u, v, 0.0, -0.38, 0.0, 0.05, torso)]
    parts += [capsule(u, v, 0.0, 0.1, side * stride, 0.88, leg) for side in (-1, 1)]
    parts += [capsule(u, v, side * torso, -0.42, side * (torso + swing), 0.08, arm) for side in (-1, 1)]
    if name == "background":
        kind = rng.integers(0, 4, (n, 1, 1))
        pole = np.minimum(capsule(u, v, 0.0, -0.6, 0.0, 0.9, leg), circle(u, v + 0.65, head * 1.5))
        tree = np.minimum(circle(u, v + 0.3, 0.45), capsule(u, v, 0.0, 0.0, 0.0, 0.9, leg * 1.5))
        crate = box(u, v - 0.2, torso * 1.8, 0.6)
        turned = np.minimum.reduce([circle(u, v - 0.72, head), parts[1], *(p[:, ::-1] for p in parts[2:4])])
        figure = np.choose(kind, [pole, tree, crate, turned])
    else:
        figure = np.minimum.reduce(parts)
    tone = np.clip(gray + rng.choice([-1, 1], (n, 1, 1, 1)) * rng.uniform(0.2, 0.45, (n, 1, 1, 1)), 0, 1)
    canvas = paint(canvas, ink(figure, s), tone)
    return finish(rng, canvas, noise=0.07)


_FRACTIONS = ((2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1), (1, 2), (3, 2), (1, 3), (2, 3), (4, 3), (5, 3))
ROSES = {f"{p} over {q}": (p, q) for p, q in _FRACTIONS}


def roses(rng: Rng, name: str, n: int) -> Array:
    """A rose curve r = cos(p/q * angle), drawn as a line of any color; the class is p/q."""
    p, q = ROSES[name]
    steps = 60 * p + 150 * q
    t = np.linspace(0, TAU * q, steps, endpoint=False)
    r = np.cos(p / q * t)
    s, a = rng.uniform(0.7, 0.92, (n, 1)), rng.uniform(0, TAU, (n, 1))
    dx, dy = rng.uniform(-0.08, 0.08, (2, n, 1))
    squeeze = rng.uniform(0.85, 1, (n, 1))
    px = (s * r * np.cos(t + a) + dx + 1) * SIZE / 2 - 0.5
    py = (s * squeeze * r * np.sin(t + a) + dy + 1) * SIZE / 2 - 0.5
    coverage = np.zeros((n, SIZE + 1, SIZE + 1))
    ix = np.clip(np.floor(px), 0, SIZE - 1).astype(int)
    iy = np.clip(np.floor(py), 0, SIZE - 1).astype(int)
    fx = px - ix
    fy = py - iy
    image = np.arange(n)[:, None]
    for oy, wy in ((0, 1 - fy), (1, fy)):
        for ox, wx in ((0, 1 - fx), (1, fx)):
            np.add.at(coverage, (image, iy + oy, ix + ox), wx * wy)
    line = np.clip(coverage[:, :SIZE, :SIZE] * rng.uniform(0.5, 0.9, (n, 1, 1)), 0, 1)
    canvas = backgrounds(rng, n, 0.0, 0.45, 0.3)
    return finish(rng, paint(canvas, line, colors(rng, n, value=rng.uniform(0.75, 1, n))), noise=0.06)


MOTIONS = ("left", "right", "up", "down", "clockwise", "counterclockwise", "grow", "shrink", "bounce", "shake")
FRAMES = 8


def motions(rng: Rng, name: str, n: int) -> Array:
    """A dynamic image: approximate rank pooling, sum_t (2t - T - 1) frame_t, of a short film of a moving shape."""
    time = np.linspace(-1, 1, FRAMES)[:, None, None, None]
    speed, phase = rng.uniform(0.3, 0.55, (n, 1, 1)), rng.uniform(0, TAU, (n, 1, 1))
    x, y = rng.uniform(-0.3, 0.3, (2, n, 1, 1))
    scale = rng.uniform(0.22, 0.38, (n, 1, 1)) * np.ones_like(time)
    dx = np.zeros_like(time) * x
    dy = np.zeros_like(time) * y
    if name in ("left", "right"):
        dx = time * speed * (1 if name == "right" else -1)
    elif name in ("up", "down"):
        dy = time * speed * (1 if name == "down" else -1)
    elif name in ("clockwise", "counterclockwise"):
        turn = phase + time * 2.2 * (1 if name == "clockwise" else -1)
        dx = speed * np.cos(turn)
        dy = speed * np.sin(turn)
    elif name in ("grow", "shrink"):
        scale = scale * np.exp(time * 0.6 * (1 if name == "grow" else -1))
    elif name == "bounce":
        dx = time * speed * 0.6
        dy = -0.5 * np.abs(np.cos(time * TAU / 2)) + 0.2
    elif name == "shake":
        dx = 0.35 * np.sin(time * TAU + 0.2 * phase)
    gx, gy = grid()
    u = (gx - x - dx) / scale
    v = (gy - y - dy) / scale
    kinds = list(SHAPES.values())[:4]
    kind = rng.integers(0, len(kinds), n)
    frames = np.empty((FRAMES, n, SIZE, SIZE))
    for k, shape in enumerate(kinds):
        chosen = kind == k
        frames[:, chosen] = ink(shape(u[:, chosen], v[:, chosen]), scale[:, chosen])
    # Always bright on dark: pooling gives a dark-on-bright film the image of the opposite motion.
    back = backgrounds(rng, n, 0.0, 0.3, 0.2)
    front = colors(rng, n, saturation=rng.uniform(0, 0.5, n), value=rng.uniform(0.7, 1, n))
    weights = 2.0 * np.arange(1, FRAMES + 1) - FRAMES - 1
    jitter = rng.normal(0, 0.03, (FRAMES, n, SIZE, SIZE, 3))
    film = back + frames[..., None] * (front - back) + jitter
    pooled = np.tensordot(weights, film, axes=1)
    low = pooled.min((1, 2, 3), keepdims=True)
    high = pooled.max((1, 2, 3), keepdims=True)
    return finish(rng, (pooled - low) / (high - low), noise=0.0, light=0.0)


WORLD_FILLS = ("striped", "dotted", "checked", "ringed")
WORLD_HUES = {"red": 0.0, "green": 0.36, "blue": 0.62}
WORLD = tuple(f"{hue} {fill} {shape}" for shape in SHAPES for fill in WORLD_FILLS for hue in WORLD_HUES)


def world(rng: Rng, name: str, n: int) -> Array:
    """A shape with a pattern and a color, on another pattern: shape, pattern and color together are the class."""
    hue, fill, shape = name.split()
    u, v, s = places(rng, n, (0.6, 0.85), 0.35, 0.22)
    far, near, _ = places(rng, n, (0.2, 0.4), np.pi, 0.5)
    behind = _wave(far * 2 + 1.5 * np.sin(near))[..., None]
    canvas = backgrounds(rng, n, 0.2, 0.8) * (0.75 + 0.25 * behind)
    h = WORLD_HUES[hue] + rng.normal(0, 0.03, n)
    light = colors(rng, n, h, rng.uniform(0.6, 1, n), rng.uniform(0.75, 1, n))
    dark = light * rng.uniform(0.15, 0.45, (n, 1, 1, 1))
    grain, turn = rng.uniform(4.5, 6.5, (n, 1, 1)), rng.uniform(0, np.pi, (n, 1, 1))
    tu = grain * (u * np.cos(turn) + v * np.sin(turn))
    tv = grain * (v * np.cos(turn) - u * np.sin(turn))
    pattern = TEXTURES[fill](tu, tv, rng)[..., None]
    canvas = paint(canvas, ink(SHAPES[shape](u, v), s), light * pattern + dark * (1 - pattern))
    return finish(rng, canvas, noise=0.06, light=0.3)
