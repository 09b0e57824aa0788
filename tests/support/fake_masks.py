"""Tiny segmentation sets in the real on-disk formats; each function writes ``root/<name>`` in the published layout."""

from pathlib import Path

import numpy as np
from PIL import Image

from tests.support.images import write_images

SMALL = "depth=2,embed_dim=16,num_heads=2,patch_size=4,img_size=24"
"""Specification of a ViT for these images."""


def painted(seed: int, colors: int, size: tuple[int, int] = (24, 32)) -> tuple[Image.Image, np.ndarray]:
    """A picture of 8 px tiles in noisy colors, and the number of each pixel's color, (H, W)."""
    rng = np.random.default_rng(seed)
    palette = np.array([[230, 30, 30], [30, 230, 30], [30, 30, 230], [220, 220, 40]])[:colors]
    tiles = rng.integers(0, colors, (size[0] // 8, size[1] // 8))
    numbers = tiles.repeat(8, axis=0).repeat(8, axis=1)
    pixels = palette[numbers] + rng.normal(0, 10, (*size, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8)), numbers


def save_pair(image: Path, mask: Path, picture: Image.Image, labels: np.ndarray, palette: bool = False) -> None:
    """Write a picture and its mask; ``palette`` colors the mask, as VOC's are."""
    for path in (image, mask):
        path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(image, quality=95)
    written = Image.fromarray(labels.astype(np.uint8))
    if palette:
        written.putpalette(np.random.default_rng(0).integers(0, 256, 768).astype(np.uint8).tobytes())
    written.save(mask)


def ade20k(root: Path, train: int = 40, test: int = 8) -> None:
    """Four colors are the labels 1, 5, 20 and 150; the upper left corner is unlabeled."""
    base, labels = root / "ade20k" / "ADEChallengeData2016", np.array([1, 5, 20, 150])
    for part, short, n in (("training", "train", train), ("validation", "val", test)):
        for i in range(n):
            picture, numbers = painted(i + 1000 * (part == "validation"), 4)
            mask = labels[numbers]
            mask[:3, :3] = 0
            name = f"ADE_{short}_{i + 1:08d}"
            save_pair(base / f"images/{part}/{name}.jpg", base / f"annotations/{part}/{name}.png", picture, mask)


def voc12(root: Path, name: str = "voc12") -> None:
    """Three colors are background, class 1 and class 20; the outermost pixels are a border."""
    base, labels = root / name / "VOCdevkit" / "VOC2012", np.array([0, 1, 20])
    names: dict[str, list[str]] = {"train": [], "val": [], "trainaug": []}
    for i in range(30):
        picture, numbers = painted(i, 3)
        mask = labels[numbers]
        mask[0], mask[-1] = 255, 255
        stem, part = f"2007_{i:06d}", "val" if i < 6 else "train" if i < 16 else "trainaug"
        folder = "SegmentationClassAug" if part == "trainaug" else "SegmentationClass"
        if part != "trainaug" or name == "voc12_aug":
            save_pair(base / f"JPEGImages/{stem}.jpg", base / f"{folder}/{stem}.png", picture, mask, palette=i < 16)
            names[part].append(stem)
        if part == "train" and name == "voc12_aug":  # its masks have no palette
            save_pair(base / f"JPEGImages/{stem}.jpg", base / f"SegmentationClassAug/{stem}.png", picture, mask)
    lists = base / "ImageSets" / "Segmentation"
    lists.mkdir(parents=True)
    for part in ("train", "val"):
        (lists / f"{part}.txt").write_text("\n".join(names[part]) + "\n")
    if name == "voc12_aug":
        (lists / "trainaug.txt").write_text("\n".join([*names["train"], *names["trainaug"]]) + "\n")


def voc12_aug(root: Path) -> None:
    voc12(root, name="voc12_aug")


MASKED_FORMATS = {f.__name__: f for f in (ade20k, voc12, voc12_aug)}
"""Name of a segmentation set -> the function that writes it."""


def write_all(root: Path) -> Path:
    """All segmentation sets, and 48 images of three shapes to classify."""
    for write in MASKED_FORMATS.values():
        write(root)
    write_images(root / "shapes", {"train": 48, "val": 9, "test": 12})
    return root
