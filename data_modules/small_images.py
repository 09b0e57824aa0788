"""Official sets of small images: CIFAR, Fashion-MNIST, SVHN, GTSRB, Omniglot, FER2013."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torchvision import datasets
from torchvision.datasets.utils import check_integrity

from data_modules.base import DatasetInfo, Split
from data_modules.images import ImageFiles, LabeledImages
from data_modules.official import Archive, OfficialData
from data_modules.splits import Indices, grouped_split
from lgx.errors import UserError


class CIFAR10(OfficialData):
    """CIFAR-10; torchvision checks every file's md5 before it is unpickled."""

    info = DatasetInfo(
        name="cifar10",
        num_classes=10,
        sizes=(45_000, 5_000, 10_000),
        license="none stated",
        source="https://www.cs.toronto.edu/~kriz/cifar.html",
        splits="official train (a stratified share held out as val) and test",
        img_size=32,
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    )
    marker = "cifar-10-batches-py"
    archives = (Archive(f"https://www.cs.toronto.edu/~kriz/{datasets.CIFAR10.filename}", datasets.CIFAR10.tgz_md5),)
    reader: type[datasets.CIFAR10] = datasets.CIFAR10

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Open torchvision's reader."""
        source = self.reader(str(folder), train=split == "train")
        return self._labeled(source, source.targets, split)

    def fetch(self, folder: Path) -> None:
        """Unpack."""
        self.reader(str(folder), download=True)


class CIFAR100(CIFAR10):
    """CIFAR-100 with its 100 fine classes."""

    info = DatasetInfo(
        name="cifar100",
        num_classes=100,
        sizes=(45_000, 5_000, 10_000),
        license="none stated",
        source="https://www.cs.toronto.edu/~kriz/cifar.html",
        splits="official train (a stratified share held out as val) and test",
        img_size=32,
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
    )
    marker = "cifar-100-python"
    archives = (Archive(f"https://www.cs.toronto.edu/~kriz/{datasets.CIFAR100.filename}", datasets.CIFAR100.tgz_md5),)
    reader = datasets.CIFAR100


class FashionMNIST(OfficialData):
    """Fashion-MNIST from the four idx files, or from class folders."""

    info = DatasetInfo(
        name="fashion_mnist",
        num_classes=10,
        sizes=(54_000, 6_000, 10_000),
        license="MIT",
        source="https://github.com/zalandoresearch/fashion-mnist",
        splits="official train (a stratified share held out as val) and test",
        img_size=28,
        in_chans=1,
        mean=(0.2860,),
        std=(0.3530,),
        class_names=tuple(datasets.FashionMNIST.classes),
    )
    marker = "FashionMNIST"
    archives = tuple(
        Archive(f"{datasets.FashionMNIST.mirrors[0]}{filename}", md5, "FashionMNIST/raw")
        for filename, md5 in datasets.FashionMNIST.resources
    )

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Open torchvision's reader."""
        source = datasets.FashionMNIST(str(folder), train=split == "train")
        if len(source.data) != len(source.targets):
            raise ValueError(f"{len(source.data)} images but {len(source.targets)} labels")
        return self._labeled(source, source.targets, split)

    def fetch(self, folder: Path) -> None:
        """Unpack."""
        datasets.FashionMNIST(str(folder), download=True)


class SVHN(OfficialData):
    """Street View House Numbers, cropped digits (the ``extra`` images are not used)."""

    info = DatasetInfo(
        name="svhn",
        num_classes=10,
        sizes=(65_931, 7_326, 26_032),
        license="non-commercial use only",
        source="http://ufldl.stanford.edu/housenumbers/",
        splits="official train (a stratified share held out as val) and test",
        img_size=32,
        mean=(0.4377, 0.4438, 0.4728),
        std=(0.1980, 0.2010, 0.1970),
        class_names=tuple("0123456789"),
    )
    marker = "train_32x32.mat"
    archives = tuple(Archive(url, md5) for url, _, md5 in map(datasets.SVHN.split_list.get, ("train", "test")))

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Open torchvision's reader."""
        source = datasets.SVHN(str(folder), split=split)
        return self._labeled(source, source.labels, split)

    def fetch(self, folder: Path) -> None:
        """Check the two files; there is nothing to unpack."""
        for part in ("train", "test"):
            datasets.SVHN(str(folder), split=part, download=True)


class GTSRB(OfficialData):
    """German traffic signs; about 30 frames come from one drive past a sign, so val takes whole tracks."""

    info = DatasetInfo(
        name="gtsrb",
        num_classes=43,
        sizes=(None, None, 12_630),
        license="none stated",
        source="https://benchmark.ini.rub.de/",
        splits="official train (26,640 images, of which whole tracks are held out as val) and test",
        img_size=32,
        mean=(0.3403, 0.3121, 0.3214),
        std=(0.2724, 0.2608, 0.2669),
    )
    marker = "gtsrb/GTSRB"
    archives = tuple(
        Archive(f"https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/{filename}", md5, "gtsrb")
        for filename, md5 in (
            ("GTSRB-Training_fixed.zip", "513f3c79a4c5141765e10e952eaa2478"),
            ("GTSRB_Final_Test_Images.zip", "c7e4e6327067d32654124b0fe9e82185"),
            ("GTSRB_Final_Test_GT.zip", "fe31e9c9270bbcd7b84b7f21a9d9d9e5"),
        )
    )

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Open torchvision's reader."""
        source = datasets.GTSRB(str(folder), split=split)
        return self._labeled(source, [label for _, label in source._samples], split)

    def fetch(self, folder: Path) -> None:
        """Unpack."""
        for part in ("train", "test"):
            datasets.GTSRB(str(folder), split=part, download=True)

    def hold_out(self, train: LabeledImages | ImageFiles) -> tuple[Indices, Indices]:
        """Whole tracks: a file is called ``<track>_<frame>.ppm``."""
        if isinstance(train, ImageFiles):
            names = [train.path(i).name for i in range(len(train))]
        else:
            names = [Path(path).name for path, _ in train.source._samples]
        return grouped_split(train.labels, [n.split("_")[0] for n in names], self.val_fraction, self.split_seed)


class Omniglot(OfficialData):
    """Omniglot with all 1,623 characters of both halves as classes, split by drawer.

    Every character was drawn once by each of 20 people: 1-11 train, 12-15 val, 16-20 test (``val_fraction`` has
    no effect).
    """

    info = DatasetInfo(
        name="omniglot",
        num_classes=1_623,
        sizes=(17_853, 6_492, 8_115),
        license="MIT",
        source="https://github.com/brendenlake/omniglot",
        splits="by drawer: 1-11 train, 12-15 val, 16-20 test (there is no official split for classification)",
        img_size=105,
        in_chans=1,
        mean=(0.922,),
        std=(0.268,),
    )
    marker = "omniglot-py"
    archives = tuple(
        Archive(f"{datasets.Omniglot.download_url_prefix}/{half}.zip", md5, "omniglot-py")
        for half, md5 in datasets.Omniglot.zips_md5.items()
    )
    has_official_val = True

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Open both halves; a file is called ``<character>_<drawer>.png``."""
        halves = [datasets.Omniglot(str(folder), background=background) for background in (True, False)]
        names = [name for half in halves for name, _ in half._flat_character_images]
        shift = len(halves[0]._characters)
        labels = [c + i * shift for i, half in enumerate(halves) for _, c in half._flat_character_images]
        drawer = np.array([int(Path(name).stem.split("_")[1]) for name in names])
        first, last = {"train": (1, 11), "val": (12, 15), "test": (16, 20)}[split]
        chosen = np.flatnonzero((drawer >= first) & (drawer <= last))
        source = halves[0] + halves[1]
        return LabeledImages(source, np.array(labels)[chosen], f"{self.info.name} {split}", chosen)

    def fetch(self, folder: Path) -> None:
        """Unpack."""
        for background in (True, False):
            datasets.Omniglot(str(folder), background=background, download=True)


class FER2013(OfficialData):
    """Facial expressions of the ICML 2013 challenge, from ``fer2013.csv``, ``icml_face_data.csv`` or class folders."""

    info = DatasetInfo(
        name="fer2013",
        num_classes=7,
        sizes=(28_709, 3_589, 3_589),
        license="terms of the Kaggle challenge",
        source="https://www.kaggle.com/c/challenges-in-representation-learning-facial-expression-recognition-challenge",
        splits="the challenge's Training, PublicTest (val) and PrivateTest (test)",
        img_size=48,
        in_chans=1,
        mean=(0.5077,),
        std=(0.2550,),
        class_names=("angry", "disgust", "fear", "happy", "sad", "surprise", "neutral"),
    )
    marker = "fer2013"
    manual = "download fer2013.csv from the challenge's page and place it at {folder}/fer2013/fer2013.csv"
    has_official_val = True

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Read the table; torchvision's own reader cannot tell PublicTest from PrivateTest."""
        for filename, md5 in (datasets.FER2013._RESOURCES["fer"], datasets.FER2013._RESOURCES["icml"]):
            path = folder / "fer2013" / filename
            if not path.exists():
                continue
            if not check_integrity(str(path), md5):
                raise UserError(f"fer2013: {path} has the wrong md5, expected {md5}; download it again")
            return self._labeled(*_read_fer_table(path, split), split)
        raise UserError(f"fer2013: expected fer2013.csv or icml_face_data.csv in {folder / 'fer2013'}")


def _read_fer_table(path: Path, split: Split) -> tuple[list[tuple[Any, int]], list[int]]:
    usage = {"train": "Training", "val": "PublicTest", "test": "PrivateTest"}[split]
    labels, pixels = [], []
    with path.open(newline="") as file:
        for raw in csv.DictReader(file):
            row = {key.strip(): value for key, value in raw.items()}
            if row["Usage"] == usage:
                labels.append(int(row["emotion"]))
                pixels.append(np.array(row["pixels"].split(), np.uint8).reshape(48, 48))
    return [(Image.fromarray(p), label) for p, label in zip(pixels, labels, strict=True)], labels
