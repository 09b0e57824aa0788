"""CIFAR-10 and CIFAR-100 (Krizhevsky, 2009)."""

from typing import Any

from torchvision import datasets

from data_modules.base import DatasetInfo, Split
from data_modules.official import TRAIN_AND_TEST, Archive, TorchvisionSet

_URL = "https://www.cs.toronto.edu/~kriz"


class CIFAR10(TorchvisionSet):
    """CIFAR-10. torchvision checks the md5 of every file before it unpickles it."""

    info = DatasetInfo(
        name="cifar10",
        num_classes=10,
        sizes=(45_000, 5_000, 10_000),
        license="none stated",
        source=f"{_URL}/cifar.html",
        splits=TRAIN_AND_TEST,
        img_size=32,
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    )
    marker = "cifar-10-batches-py"
    archives = (Archive(f"{_URL}/{datasets.CIFAR10.filename}", datasets.CIFAR10.tgz_md5),)
    reader = datasets.CIFAR10

    def arguments(self, split: Split) -> dict[str, Any]:
        """See :class:`~data_modules.official.TorchvisionSet`."""
        return {"train": split == "train"}

    def labels_of(self, source: Any) -> Any:
        """See :class:`~data_modules.official.TorchvisionSet`."""
        return source.targets


class CIFAR100(CIFAR10):
    """CIFAR-100 with its 100 fine classes."""

    info = DatasetInfo(
        name="cifar100",
        num_classes=100,
        sizes=(45_000, 5_000, 10_000),
        license="none stated",
        source=f"{_URL}/cifar.html",
        splits=TRAIN_AND_TEST,
        img_size=32,
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
    )
    marker = "cifar-100-python"
    archives = (Archive(f"{_URL}/{datasets.CIFAR100.filename}", datasets.CIFAR100.tgz_md5),)
    reader = datasets.CIFAR100
