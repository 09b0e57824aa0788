"""Sets that torchvision reads: as they are, or with splits of their own."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torchvision import datasets

from data_modules.base import DatasetInfo, Split
from data_modules.files.archives import unpack
from data_modules.images.examples import LabeledImages
from data_modules.sets.official import TRAIN_AND_TEST, Archive, TorchvisionSet
from data_modules.splits import stratified_order

__all__ = [
    *("CIFAR10", "CIFAR100", "DTD", "Caltech101", "FashionMNIST", "Flowers102", "Food101", "OxfordIIITPet"),
    "StanfordCars",
]
_CIFAR = "https://www.cs.toronto.edu/~kriz"
_CALTECH = "https://data.caltech.edu/records/mzrjq-6wc02"
_VGG = "https://www.robots.ox.ac.uk/~vgg/data"


class CIFAR10(TorchvisionSet):
    """CIFAR-10 (Krizhevsky, 2009). torchvision checks the md5 of every file before it unpickles it."""

    info = DatasetInfo(
        name="cifar10", num_classes=10, sizes=(45_000, 5_000, 10_000), license="none stated",
        source=f"{_CIFAR}/cifar.html", splits=TRAIN_AND_TEST, img_size=32, mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    )  # fmt: skip
    marker = "cifar-10-batches-py"
    archives = (Archive(f"{_CIFAR}/{datasets.CIFAR10.filename}", datasets.CIFAR10.tgz_md5),)
    reader = datasets.CIFAR10


class CIFAR100(CIFAR10):
    """CIFAR-100 (Krizhevsky, 2009) with its 100 fine classes."""

    info = replace(
        CIFAR10.info, name="cifar100", num_classes=100, mean=(0.5071, 0.4865, 0.4409), std=(0.2673, 0.2564, 0.2762),
        class_names=(),
    )  # fmt: skip
    marker = "cifar-100-python"
    archives = (Archive(f"{_CIFAR}/{datasets.CIFAR100.filename}", datasets.CIFAR100.tgz_md5),)
    reader = datasets.CIFAR100


class DTD(TorchvisionSet):
    """DTD, the Describable Textures Dataset (Cimpoi et al., 2014), first of the ten official partitions."""

    info = DatasetInfo(
        name="dtd", num_classes=47, sizes=(1_880, 1_880, 1_880), license="research only", source=f"{_VGG}/dtd/",
        splits="official train, val and test of partition 1",
    )  # fmt: skip
    marker = "dtd"
    archives = (Archive(f"{_VGG}/dtd/download/dtd-r1.0.1.tar.gz", "fff73e5086ae6bdbea199a49dfb8a4c1", "dtd"),)
    has_official_val = True
    reader = datasets.DTD


class Food101(TorchvisionSet):
    """Food-101 (Bossard et al., 2014). Training images were not cleaned, on purpose: some labels are wrong."""

    info = DatasetInfo(
        name="food101", num_classes=101, sizes=(68_175, 7_575, 25_250), license="scientific fair use only",
        source="https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/", splits=TRAIN_AND_TEST,
    )  # fmt: skip
    marker = "food-101"
    archives = (Archive("http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz", "85eeb15f3717b99a5da872d97d918f87"),)
    reader = datasets.Food101


class FashionMNIST(TorchvisionSet):
    """Fashion-MNIST (Xiao et al., 2017) from the four idx files of its publishers or of a Linux distribution."""

    info = DatasetInfo(
        name="fashion_mnist", num_classes=10, sizes=(54_000, 6_000, 10_000), license="MIT",
        source="https://github.com/zalandoresearch/fashion-mnist", splits=TRAIN_AND_TEST, img_size=28, in_chans=1,
        mean=(0.2860,), std=(0.3530,), class_names=tuple(datasets.FashionMNIST.classes),
    )  # fmt: skip
    marker = "FashionMNIST"
    # Without md5, because distributions compress the files again; gzip has checksums of the content.
    archives = tuple(
        Archive(f"{datasets.FashionMNIST.mirrors[0]}{filename}", folder="FashionMNIST/raw")
        for filename, _ in datasets.FashionMNIST.resources
    )
    reader = datasets.FashionMNIST


class StanfordCars(TorchvisionSet):
    """Stanford Cars (Krause et al., 2013). Its publishers no longer offer a download."""

    info = DatasetInfo(
        name="stanford_cars", num_classes=196, sizes=(7_330, 814, 8_041), license="non-commercial research only",
        source="https://ai.stanford.edu/~jkrause/cars/car_dataset.html", splits=TRAIN_AND_TEST,
    )  # fmt: skip
    marker = "stanford_cars"
    manual = (
        "the publishers' download is gone: from a copy, place cars_train/, cars_test/, devkit/ and "
        "cars_test_annos_withlabels.mat into {folder}/stanford_cars"
    )
    reader = datasets.StanfordCars


class Flowers102(TorchvisionSet):
    """Oxford Flowers-102 with its official val split (Nilsback and Zisserman, 2008); 10 training images per class."""

    info = DatasetInfo(
        name="flowers102", num_classes=102, sizes=(1_020, 1_020, 6_149), license="none stated",
        source=f"{_VGG}/flowers/102/", splits="official train, val and test",
        class_names=tuple(datasets.Flowers102.classes),
    )  # fmt: skip
    marker = "flowers-102"
    archives = (
        Archive(f"{_VGG}/flowers/102/102flowers.tgz", "52808999861908f626f3c1f4e79d11fa", "flowers-102"),
        Archive(f"{_VGG}/flowers/102/imagelabels.mat", "e0620be6f572b9609742df49c70aed4d", "flowers-102"),
        Archive(f"{_VGG}/flowers/102/setid.mat", "a5357ecc9cb78c4bef273ce3793fc85c", "flowers-102"),
    )
    has_official_val = True
    reader = datasets.Flowers102


class OxfordIIITPet(TorchvisionSet):
    """Oxford-IIIT Pet (Parkhi et al., 2012), 37 breeds of cats and dogs."""

    info = DatasetInfo(
        name="oxford_iiit_pet", num_classes=37, sizes=(3_312, 368, 3_669), license="CC BY-SA 4.0",
        source=f"{_VGG}/pets/", splits="official trainval (a stratified share held out as val) and test",
    )  # fmt: skip
    marker = "oxford-iiit-pet"
    archives = (
        Archive(f"{_VGG}/pets/data/images.tar.gz", "5c4f3ee8e5d25df40f4fd59a7f44e54c", "oxford-iiit-pet"),
        Archive(f"{_VGG}/pets/data/annotations.tar.gz", "95a8c909bbe2e81eed6a22bccdf3f68f", "oxford-iiit-pet"),
    )
    reader = datasets.OxfordIIITPet

    def arguments(self, split: Split) -> dict[str, Any]:
        """See :class:`~data_modules.sets.official.TorchvisionSet`."""
        return {"split": "trainval" if split == "train" else "test"}


class Caltech101(TorchvisionSet):
    """Caltech-101 without its background class.

    It has no official split. As its publishers do, 30 images of every class are drawn for training, here with a fixed
    seed; a stratified share of them is val, and all other images are test.
    """

    info = DatasetInfo(
        name="caltech101", num_classes=101, sizes=(2_727, 303, 5_647), license="CC BY 4.0",
        source=_CALTECH,
        splits="no official split: a fixed draw of 30 images per class (a share held out as val), the rest is test",
    )  # fmt: skip
    marker = "caltech101/101_ObjectCategories"
    archives = (Archive(f"{_CALTECH}/files/caltech-101.zip", "3138e1922a9193bfa496528edbbc45d0", "caltech101"),)
    reader = datasets.Caltech101
    per_class = 30

    def arguments(self, split: Split) -> dict[str, Any]:
        """Torchvision's reader knows no splits."""
        return {}

    @classmethod
    def unpack(cls, source: Path, folder: Path) -> None:
        """Also unpack the archive of images that is in the archive."""
        super().unpack(source, folder)
        place = folder / cls.archives[0].folder
        unpack(place / "caltech-101" / "101_ObjectCategories.tar.gz", place)
        shutil.rmtree(place / "caltech-101")

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
