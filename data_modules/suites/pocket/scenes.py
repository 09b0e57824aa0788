"""Scenes: four road signs with a class for every pixel, made in seconds; the pocket set for segmentation."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
from PIL import Image

from data_modules.base import DatasetInfo, Split
from data_modules.sets.segmentation import SegmentationSet
from data_modules.suites.pocket.drawing import SIZE
from data_modules.suites.pocket.synthetic import SIGN_HUES, SIGN_SHAPES, SIGNS, signs
from lgx.host.files import atomic_path

SCENES = {"train": 900, "test": 300}
CLASSES = ("background", *(f"{shape} {hue}" for shape in SIGN_SHAPES for hue in SIGN_HUES))


class PocketScenes(SegmentationSet):
    """64 x 64 px scenes of four drawn road signs, each in a quarter, at ``root/pocket_scenes``.

    A pixel's class is the shape and the color of its sign. No claim on real sets may rest on them.
    """

    info = DatasetInfo(
        name="pocket_scenes", num_classes=len(CLASSES), sizes=(810, 90, 300), license="none needed (generated)",
        source="seeded generator", splits="val is held out of train", img_size=2 * SIZE, class_names=CLASSES,
        kind="segmentation", metric="miou",
    )  # fmt: skip
    marker = "made"
    meanings: ClassVar[Mapping[int, int]] = {value: value for value in range(len(CLASSES))}

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
    for part, count in SCENES.items():
        rng = np.random.default_rng([seed, count])
        with atomic_path(folder / part) as place:
            place.mkdir()
            for i in range(count):
                for values, name in zip(_scene(rng), (f"{i}.png", f"{i}_mask.png"), strict=True):
                    Image.fromarray(values).save(place / name)
    (folder / "made").touch()


def _scene(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """An image (64, 64, 3) of four signs, and its classes (64, 64)."""
    pixels, mask = np.zeros((2 * SIZE, 2 * SIZE, 3), np.uint8), np.zeros((2 * SIZE, 2 * SIZE), np.uint8)
    for name, (row, column) in zip(rng.choice(SIGNS, 4), np.ndindex(2, 2), strict=True):
        quarter = slice(SIZE * row, SIZE * (row + 1)), slice(SIZE * column, SIZE * (column + 1))
        images, faces = signs(rng, name, 1)
        pixels[quarter] = images[0]
        mask[quarter][faces[0] > 0.5] = CLASSES.index(name.rsplit(maxsplit=1)[0])
    return pixels, mask
