"""A tiny set of images with several labels: shapes, each at a place of its own."""

from pathlib import Path

import numpy as np
from PIL import Image

SHAPES = ("bar", "dot", "ring")


def draw(labels: np.ndarray, rng: np.random.Generator) -> Image.Image:
    """A 16 px RGB picture with those of the three shapes that ``labels`` names, noisy."""
    y, x = np.mgrid[:16, :16]
    parts = [abs(y - 2) < 2, (x - 4) ** 2 + (y - 11) ** 2 < 9, abs(np.hypot(x - 12, y - 11) - 3) < 1]
    shown = sum(part * bool(label) for part, label in zip(parts, labels, strict=True))
    return Image.fromarray(
        (np.asarray(shown)[..., None] * 180 + rng.normal(40, 15, (16, 16, 3))).clip(0, 255).astype(np.uint8)
    )


def write_labeled(root: Path, columns: bool = False, train: int = 64, test: int = 24) -> Path:
    """Write ``images/<k>.png`` and ``labels.csv`` with a column ``split``; each split begins with an image of none."""
    rng = np.random.default_rng(0)
    (root / "images").mkdir(parents=True)
    lines = [f"file,{','.join(SHAPES)},split" if columns else "file,labels,split"]
    for k in range(train + test):
        labels = np.array([0, 0, 0]) if k in (0, train) else rng.integers(0, 2, 3)
        draw(labels, rng).save(root / f"images/{k:03d}.png")
        named = ";".join(name for name, label in zip(SHAPES, labels, strict=True) if label)
        cells = ",".join(map(str, labels)) if columns else named
        lines.append(f"images/{k:03d}.png,{cells},{'train' if k < train else 'test'}")
    (root / "labels.csv").write_text("\n".join(lines) + "\n")
    return root
