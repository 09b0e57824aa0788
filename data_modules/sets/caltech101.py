"""Caltech-101 (Fei-Fei et al., 2004)."""

from pathlib import Path
from typing import Any

import numpy as np
from torchvision import datasets

from data_modules.base import DatasetInfo, Split
from data_modules.images.examples import LabeledImages
from data_modules.sets.official import Archive, TorchvisionSet
from data_modules.splits import stratified_order


class Caltech101(TorchvisionSet):
    """Caltech-101 without its background class.

    It has no official split. As its publishers do, 30 images of every class are drawn for training, here with a fixed
    seed; a stratified share of them is val, and all other images are test.
    """

    info = DatasetInfo(
        name="caltech101",
        num_classes=101,
        sizes=(2_727, 303, 5_647),
        license="CC BY 4.0",
        source="https://data.caltech.edu/records/mzrjq-6wc02",
        splits="no official split: a fixed draw of 30 images per class (a share held out as val), the rest is test",
    )
    marker = "caltech101/101_ObjectCategories"
    archives = (
        Archive(
            "https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip",
            "3138e1922a9193bfa496528edbbc45d0",
            "caltech101",
        ),
    )
    reader = datasets.Caltech101
    per_class = 30

    def arguments(self, split: Split) -> dict[str, Any]:
        """Torchvision's reader knows no splits."""
        return {}

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Open torchvision's reader and draw the training images."""
        source = self.reader(str(folder))
        labels = np.asarray(source.y)
        is_train = np.zeros(len(labels), bool)
        order = stratified_order(labels, seed=0)
        for label in np.unique(labels):
            is_train[order[labels[order] == label][: self.per_class]] = True
        chosen = np.flatnonzero(is_train if split == "train" else ~is_train)
        return LabeledImages(source, labels[chosen], f"{self.info.name} {split}", chosen)
