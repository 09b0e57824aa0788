"""Oxford Flowers-102 (Nilsback and Zisserman, 2008)."""

from torchvision import datasets

from data_modules.base import DatasetInfo
from data_modules.official import Archive, TorchvisionSet

_URL = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102"


class Flowers102(TorchvisionSet):
    """Oxford Flowers-102 with its official val split; 10 training images per class."""

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
        Archive(f"{_URL}/{filename}", md5, "flowers-102") for filename, md5 in datasets.Flowers102._file_dict.values()
    )
    has_official_val = True
    reader = datasets.Flowers102
