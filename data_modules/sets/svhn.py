"""SVHN, the Street View House Numbers (Netzer et al., 2011)."""

from typing import Any

from torchvision import datasets

from data_modules.base import DatasetInfo
from data_modules.official import TRAIN_AND_TEST, Archive, TorchvisionSet


class SVHN(TorchvisionSet):
    """SVHN, cropped digits; the ``extra`` images are not used."""

    info = DatasetInfo(
        name="svhn",
        num_classes=10,
        sizes=(65_931, 7_326, 26_032),
        license="non-commercial use only",
        source="http://ufldl.stanford.edu/housenumbers/",
        splits=TRAIN_AND_TEST,
        img_size=32,
        mean=(0.4377, 0.4438, 0.4728),
        std=(0.1980, 0.2010, 0.1970),
        class_names=tuple("0123456789"),
    )
    marker = "train_32x32.mat"
    archives = tuple(Archive(url, md5) for url, _, md5 in map(datasets.SVHN.split_list.get, ("train", "test")))
    reader = datasets.SVHN
    unpacked_splits = ("train", "test")

    def labels_of(self, source: Any) -> Any:
        """See :class:`~data_modules.official.TorchvisionSet`."""
        return source.labels
