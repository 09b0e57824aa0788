"""Official sets of photographs: Food-101, Cars-196, Flowers-102, Pets, DTD, Caltech-101, Aircraft."""

from pathlib import Path

import numpy as np
from torchvision import datasets

from data_modules.base import DatasetInfo, Split
from data_modules.images import LabeledImages
from data_modules.official import Archive, OfficialData
from data_modules.splits import stratified_order

_OXFORD = "https://www.robots.ox.ac.uk/~vgg/data"


class Food101(OfficialData):
    """Food-101; its training images were deliberately not cleaned."""

    info = DatasetInfo(
        name="food101",
        num_classes=101,
        sizes=(68_175, 7_575, 25_250),
        license="scientific fair use only",
        source="https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/",
        splits="official train (a stratified share held out as val) and test",
    )
    marker = "food-101"
    archives = (Archive(datasets.Food101._URL, datasets.Food101._MD5),)

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Open torchvision's reader."""
        source = datasets.Food101(str(folder), split=split)
        return self._labeled(source, source._labels, split)

    def fetch(self, folder: Path) -> None:
        """Unpack."""
        datasets.Food101(str(folder), download=True)


class StanfordCars(OfficialData):
    """Stanford Cars (Cars-196); its publishers' download is gone."""

    info = DatasetInfo(
        name="stanford_cars",
        num_classes=196,
        sizes=(7_330, 814, 8_041),
        license="non-commercial research only",
        source="https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
        splits="official train (a stratified share held out as val) and test",
    )
    marker = "stanford_cars"
    manual = (
        "the publishers' download is gone: from a copy, place cars_train/, cars_test/, devkit/ and "
        "cars_test_annos_withlabels.mat into {folder}/stanford_cars"
    )

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Open torchvision's reader."""
        source = datasets.StanfordCars(str(folder), split=split)
        return self._labeled(source, [int(label) for _, label in source._samples], split)


class Flowers102(OfficialData):
    """Oxford Flowers-102 with its official val split (10 training images per class)."""

    info = DatasetInfo(
        name="flowers102",
        num_classes=102,
        sizes=(1_020, 1_020, 6_149),
        license="none stated",
        source="https://www.robots.ox.ac.uk/~vgg/data/flowers/102/",
        splits="official train, val and test",
        class_names=tuple(datasets.Flowers102.classes),
    )
    marker = "flowers-102"
    archives = tuple(
        Archive(f"{_OXFORD}/flowers/102/{filename}", md5, "flowers-102")
        for filename, md5 in datasets.Flowers102._file_dict.values()
    )
    has_official_val = True

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Open torchvision's reader."""
        source = datasets.Flowers102(str(folder), split=split)
        return self._labeled(source, source._labels, split)

    def fetch(self, folder: Path) -> None:
        """Unpack."""
        datasets.Flowers102(str(folder), download=True)


class OxfordIIITPet(OfficialData):
    """Oxford-IIIT Pet, 37 breeds of cats and dogs."""

    info = DatasetInfo(
        name="oxford_iiit_pet",
        num_classes=37,
        sizes=(3_312, 368, 3_669),
        license="CC BY-SA 4.0",
        source="https://www.robots.ox.ac.uk/~vgg/data/pets/",
        splits="official trainval (a stratified share held out as val) and test",
    )
    marker = "oxford-iiit-pet"
    archives = tuple(Archive(url, md5, "oxford-iiit-pet") for url, md5 in datasets.OxfordIIITPet._RESOURCES)

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Open torchvision's reader."""
        source = datasets.OxfordIIITPet(str(folder), split="trainval" if split == "train" else "test")
        return self._labeled(source, source._labels, split)

    def fetch(self, folder: Path) -> None:
        """Unpack."""
        datasets.OxfordIIITPet(str(folder), download=True)


class DTD(OfficialData):
    """Describable Textures, first of the ten official partitions."""

    info = DatasetInfo(
        name="dtd",
        num_classes=47,
        sizes=(1_880, 1_880, 1_880),
        license="research only",
        source="https://www.robots.ox.ac.uk/~vgg/data/dtd/",
        splits="official train, val and test of partition 1",
    )
    marker = "dtd"
    archives = (Archive(datasets.DTD._URL, datasets.DTD._MD5, "dtd"),)
    has_official_val = True

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Open torchvision's reader."""
        source = datasets.DTD(str(folder), split=split)
        return self._labeled(source, source._labels, split)

    def fetch(self, folder: Path) -> None:
        """Unpack."""
        datasets.DTD(str(folder), download=True)


class Caltech101(OfficialData):
    """Caltech-101 without its background class.

    It has no official split: 30 images of every class, drawn with a fixed seed, are for training, the custom of its
    publishers; a stratified share of them is val, and all other images are test.
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
    per_class = 30

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Open torchvision's reader and draw the test images."""
        source = datasets.Caltech101(str(folder))
        labels = np.asarray(source.y)
        is_train = np.zeros(len(labels), bool)
        order = stratified_order(labels, seed=0)
        for label in np.unique(labels):
            is_train[order[labels[order] == label][: self.per_class]] = True
        chosen = np.flatnonzero(is_train if split == "train" else ~is_train)
        return LabeledImages(source, labels[chosen], f"{self.info.name} {split}", chosen)

    def fetch(self, folder: Path) -> None:
        """Unpack."""
        datasets.Caltech101(str(folder), download=True)


class FGVCAircraft(OfficialData):
    """FGVC-Aircraft, 100 variants."""

    info = DatasetInfo(
        name="fgvc_aircraft",
        num_classes=100,
        sizes=(3_334, 3_333, 3_333),
        license="non-commercial research only",
        source="https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/",
        splits="official train, val and test",
    )
    marker = "fgvc-aircraft-2013b"
    archives = (Archive(datasets.FGVCAircraft._URL),)
    has_official_val = True

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Open torchvision's reader."""
        source = datasets.FGVCAircraft(str(folder), split=split)
        return self._labeled(source, source._labels, split)

    def fetch(self, folder: Path) -> None:
        """Unpack."""
        datasets.FGVCAircraft(str(folder), download=True)
