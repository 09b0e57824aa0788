"""Folders of tiny real images."""

from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("circle", "square", "stripe")


def draw(label: int, rng: np.random.Generator) -> Image.Image:
    """A 16 px RGB picture of one of three shapes, noisy and shifted."""
    y, x = np.mgrid[:16, :16] - rng.integers(6, 10, size=(2, 1, 1))
    shape = [x**2 + y**2 < 20, np.maximum(abs(x), abs(y)) < 5, (x + y) % 6 < 3][label]
    image = shape[..., None] * rng.uniform(120, 220, 3) + rng.normal(30, 12, (16, 16, 3))
    return Image.fromarray(image.clip(0, 255).astype(np.uint8))


def write_images(root: Path, sizes: dict[str, int]) -> Path:
    """Write ``root/<split>/<class>/<k>.png``; sizes count images per split, spread evenly over the classes."""
    rng = np.random.default_rng(0)
    for split, size in sizes.items():
        for k in range(size):
            folder = root / split / CLASSES[k % 3]
            folder.mkdir(parents=True, exist_ok=True)
            draw(k % 3, rng).save(folder / f"{k:03d}.png")
    return root
