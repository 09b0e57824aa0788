"""Sets that torchvision reads: as they are, or with splits of their own."""

import shutil
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from torchvision import datasets

from data_modules.base import DatasetInfo, Split
from data_modules.files.archives import unpack
from data_modules.images.examples import ImageFiles, LabeledImages, files_of
from data_modules.library_internals import omniglot_characters
from data_modules.sets.official import TRAIN_AND_TEST, Archive, TorchvisionSet
from data_modules.splits import Indices, grouped_split, stratified_order

__all__ = [
    *("CIFAR10", "CIFAR100", "DTD", "GTSRB", "SVHN", "Caltech101", "FashionMNIST", "FGVCAircraft", "Flowers102"),
    *("Food101", "Omniglot", "OxfordIIITPet", "StanfordCars"),
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


class FGVCAircraft(TorchvisionSet):
    """FGVC-Aircraft (Maji et al., 2013), 100 variants."""

    info = DatasetInfo(
        name="fgvc_aircraft", num_classes=100, sizes=(3_334, 3_333, 3_333), license="non-commercial research only",
        source=f"{_VGG}/fgvc-aircraft/", splits="official train, val and test",
    )  # fmt: skip
    marker = "fgvc-aircraft-2013b"
    archives = (Archive(f"{_VGG}/fgvc-aircraft/archives/fgvc-aircraft-2013b.tar.gz"),)
    has_official_val = True
    reader = datasets.FGVCAircraft


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


class SVHN(TorchvisionSet):
    """SVHN (Netzer et al., 2011), cropped digits; the ``extra`` images are not used."""

    info = DatasetInfo(
        name="svhn", num_classes=10, sizes=(65_931, 7_326, 26_032), license="non-commercial use only",
        source="http://ufldl.stanford.edu/housenumbers/", splits=TRAIN_AND_TEST, img_size=32,
        mean=(0.4377, 0.4438, 0.4728), std=(0.1980, 0.2010, 0.1970), class_names=tuple("0123456789"),
    )  # fmt: skip
    marker = "train_32x32.mat"
    archives = tuple(Archive(url, md5) for url, _, md5 in map(datasets.SVHN.split_list.get, ("train", "test")))
    reader = datasets.SVHN


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


class GTSRB(TorchvisionSet):
    """German traffic signs. About 30 frames show one sign from one passing car, so val takes whole tracks."""

    info = DatasetInfo(
        name="gtsrb", num_classes=43, sizes=(None, None, 12_630), license="none stated",
        source="https://benchmark.ini.rub.de/",
        splits="official train (26,640 images, of which whole tracks are held out as val) and test", img_size=32,
        mean=(0.3403, 0.3121, 0.3214), std=(0.2724, 0.2608, 0.2669),
    )  # fmt: skip
    marker = "gtsrb/GTSRB"
    archives = tuple(
        Archive(f"https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/{filename}", md5, "gtsrb")
        for filename, md5 in (
            ("GTSRB-Training_fixed.zip", "513f3c79a4c5141765e10e952eaa2478"),
            ("GTSRB_Final_Test_Images.zip", "c7e4e6327067d32654124b0fe9e82185"),
            ("GTSRB_Final_Test_GT.zip", "fe31e9c9270bbcd7b84b7f21a9d9d9e5"),
        )
    )
    reader = datasets.GTSRB

    def hold_out(self, train: LabeledImages | ImageFiles) -> tuple[Indices, Indices]:
        """Hold whole tracks out: a file is called ``<track>_<frame>.ppm``."""
        tracks = [PurePath(file).name.split("_")[0] for file in files_of(train)]
        return grouped_split(train.labels, tracks, self.val_fraction, self.split_seed)


class Omniglot(TorchvisionSet):
    """Omniglot with all 1,623 characters of both halves as classes, split by drawer.

    Every character was drawn once by each of 20 people: 1-11 are train, 12-15 val, 16-20 test. ``val_fraction`` has no
    effect.
    """

    info = DatasetInfo(
        name="omniglot", num_classes=1_623, sizes=(17_853, 6_492, 8_115), license="MIT",
        source="https://github.com/brendenlake/omniglot",
        splits="by drawer: 1-11 train, 12-15 val, 16-20 test (there is no official split for classification)",
        img_size=105, in_chans=1, mean=(0.922,), std=(0.268,),
    )  # fmt: skip
    marker = "omniglot-py"
    archives = tuple(
        Archive(f"{datasets.Omniglot.download_url_prefix}/{half}.zip", md5, "omniglot-py")
        for half, md5 in datasets.Omniglot.zips_md5.items()
    )
    has_official_val = True
    reader = datasets.Omniglot

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Open both halves; a file is called ``<character>_<drawer>.png``."""
        halves = [self.reader(str(folder), background=background) for background in (True, False)]
        (first_half, shift), (second_half, _) = map(omniglot_characters, halves)
        names = [name for name, _ in (*first_half, *second_half)]
        labels = [c for _, c in first_half] + [c + shift for _, c in second_half]
        drawer = np.array([int(Path(name).stem.split("_")[1]) for name in names])
        first, last = {"train": (1, 11), "val": (12, 15), "test": (16, 20)}[split]
        chosen = np.flatnonzero((drawer >= first) & (drawer <= last))
        source = halves[0] + halves[1]
        return LabeledImages(source, np.array(labels)[chosen], f"{self.info.name} {split}", chosen)

    @classmethod
    def unpack(cls, source: Path, folder: Path) -> None:
        """Also keep the archives: torchvision checks their md5 whenever it opens the set."""
        super().unpack(source, folder)
        for archive in cls.archives:
            shutil.copy(source / archive.filename, folder / archive.folder)
