"""FER2013, facial expressions (Goodfellow et al., 2013)."""

import csv
from pathlib import Path

import numpy as np
from PIL import Image

from data_modules.base import DatasetInfo, Split
from data_modules.images.examples import LabeledImages
from data_modules.sets.official import OfficialData


class FER2013(OfficialData):
    """Facial expressions of the ICML 2013 challenge, from ``fer2013.csv`` or class folders."""

    info = DatasetInfo(
        name="fer2013", num_classes=7, sizes=(28_709, 3_589, 3_589), license="terms of the Kaggle challenge",
        source="https://www.kaggle.com/c/challenges-in-representation-learning-facial-expression-recognition-challenge",
        splits="the challenge's Training, PublicTest (val) and PrivateTest (test)", img_size=48, in_chans=1,
        mean=(0.5077,), std=(0.2550,), class_names=("angry", "disgust", "fear", "happy", "sad", "surprise", "neutral"),
    )  # fmt: skip
    marker = "fer2013"
    manual = "download fer2013.csv from the challenge's page and place it at {folder}/fer2013/fer2013.csv"
    has_official_val = True

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Read the table; torchvision's reader cannot tell PublicTest from PrivateTest."""
        usage = {"train": "Training", "val": "PublicTest", "test": "PrivateTest"}[split]
        images = []
        with (folder / "fer2013/fer2013.csv").open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["Usage"] == usage:
                    pixels = np.array(row["pixels"].split(), np.uint8).reshape(48, 48)
                    images.append((Image.fromarray(pixels), int(row["emotion"])))
        return LabeledImages(images, [label for _, label in images], f"{self.info.name} {split}")
