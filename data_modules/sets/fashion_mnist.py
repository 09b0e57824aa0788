"""Fashion-MNIST (Xiao et al., 2017)."""

import gzip
import zlib
from pathlib import Path
from typing import Any

from torchvision import datasets
from torchvision.datasets.utils import calculate_md5

from data_modules.base import DatasetInfo
from data_modules.sets.official import TRAIN_AND_TEST, Archive, TorchvisionSet
from lgx.errors import UserError
from lgx.host.files import atomic_path

IDX_MD5 = {
    "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
    "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
    "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
}
"""md5 of the unpacked files: distributions compress them again, so that the md5 of the .gz files differs."""

_IDX_BYTES = 2**26
"""Most bytes that are unpacked of a file: more than the largest of them has."""


class FashionMNIST(TorchvisionSet):
    """Fashion-MNIST from the four idx files, or from class folders."""

    info = DatasetInfo(
        name="fashion_mnist", num_classes=10, sizes=(54_000, 6_000, 10_000), license="MIT",
        source="https://github.com/zalandoresearch/fashion-mnist", splits=TRAIN_AND_TEST, img_size=28, in_chans=1,
        mean=(0.2860,), std=(0.3530,), class_names=tuple(datasets.FashionMNIST.classes),
    )  # fmt: skip
    marker = "FashionMNIST"
    archives = tuple(
        Archive(f"{datasets.FashionMNIST.mirrors[0]}{filename}", md5, "FashionMNIST/raw")
        for filename, md5 in datasets.FashionMNIST.resources
    )
    reader = datasets.FashionMNIST

    def labels_of(self, source: Any) -> Any:
        """The labels, whose number must be that of the images."""
        if len(source.data) != len(source.targets):
            raise ValueError(f"{len(source.data)} images but {len(source.targets)} labels")
        return source.targets

    @classmethod
    def bring(cls, source: Path, folder: Path) -> bool:
        """Unpack the four .gz files of a distribution's package, such as dataset-fashion-mnist of Debian."""
        if not (source / "train-images-idx3-ubyte.gz").exists():
            return False
        with atomic_path(folder) as temporary:
            raw = temporary / "FashionMNIST" / "raw"
            raw.mkdir(parents=True)
            for filename, md5 in IDX_MD5.items():
                packed = source / f"{filename}.gz"
                try:
                    with gzip.open(packed) as file:
                        (raw / filename).write_bytes(file.read(_IDX_BYTES))
                except (EOFError, zlib.error, gzip.BadGzipFile, FileNotFoundError) as error:
                    raise UserError(f"{packed}: missing or damaged ({error}); install the package again") from error
                if (found := calculate_md5(raw / filename)) != md5:
                    raise UserError(f"{packed}: its content has md5 {found}, expected {md5}; install the package again")
        return True
