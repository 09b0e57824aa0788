"""Scenes: digits on textures with a class for every pixel, made in seconds; the pocket set for segmentation."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
from PIL import Image

from data_modules.base import DatasetInfo, Split
from data_modules.pocket.drawing import SIZE
from data_modules.pocket.synthetic import TEXTURES, textures
from data_modules.pocket.written import real_digits
from data_modules.segmentation import SegmentationSet
from data_modules.splits import stratified_split
from lgx.host.files import atomic_path

SCENES = {"train": 900, "test": 300}


class PocketScenes(SegmentationSet):
    """64 x 64 px scenes of three of scikit-learn's digits on a texture, at ``root/pocket_scenes``.

    Class 0 is the background. Digits of test scenes are in no training scene. No claim on real sets may rest on them.
    """

    info = DatasetInfo(
        name="pocket_scenes",
        num_classes=11,
        sizes=(810, 90, 300),
        license="CC BY 4.0 (UCI digits, in scikit-learn)",
        source="seeded generator, digits of scikit-learn",
        splits="test has other digits; val is held out of train",
        img_size=2 * SIZE,
        class_names=("background", *"0123456789"),
        kind="segmentation",
        metric="miou",
    )
    marker = "made"
    meanings: ClassVar[Mapping[int, int]] = {value: value for value in range(11)}

    def prepare_data(self) -> None:
        """Draw the scenes if they are absent."""
        if not self.is_present(self.root):
            draw_scenes(self.folder)

    def files(self, folder: Path, split: Split) -> list[tuple[Path, Path]]:
        """See :class:`SegmentationSet`."""
        part = "test" if split == "test" else "train"
        return [(folder / part / f"{i}.png", folder / part / f"{i}_mask.png") for i in range(SCENES[part])]


def draw_scenes(folder: Path, seed: int = 0) -> None:
    """Write images and masks of both splits."""
    digits, labels = real_digits()
    own = dict(zip(SCENES, stratified_split(labels, 0.25, seed), strict=True))
    for part, count in SCENES.items():
        rng = np.random.default_rng([seed, count])
        for i in range(count):
            pixels, mask = _scene(rng, digits, labels, rng.choice(own[part], 3, replace=False))
            for values, name in ((pixels, f"{i}.png"), (mask, f"{i}_mask.png")):
                with atomic_path(folder / part / name) as path:
                    Image.fromarray(values).save(path, format="PNG")
    (folder / "made").touch()


def _scene(
    rng: np.random.Generator, digits: np.ndarray, labels: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """An image (64, 64, 3) and its classes (64, 64): three digits in three quarters."""
    background = Image.fromarray(textures(rng, str(rng.choice(list(TEXTURES))), 1)[0])
    pixels, mask = np.array(background.resize((2 * SIZE, 2 * SIZE))), np.zeros((2 * SIZE, 2 * SIZE), np.uint8)
    quarters = rng.permutation(4)[:3]
    for digit, quarter in zip(chosen, quarters, strict=True):
        rows, columns = (slice(SIZE * k, SIZE * (k + 1)) for k in divmod(int(quarter), 2))
        ink = digits[digit, ..., 0] > 96
        pixels[rows, columns][ink] = rng.integers(0, 256, 3)
        mask[rows, columns][ink] = labels[digit] + 1
    return pixels, mask
