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
    archives = (
        Archive(f"{_URL}/102flowers.tgz", "52808999861908f626f3c1f4e79d11fa", "flowers-102"),
        Archive(f"{_URL}/imagelabels.mat", "e0620be6f572b9609742df49c70aed4d", "flowers-102"),
        Archive(f"{_URL}/setid.mat", "a5357ecc9cb78c4bef273ce3793fc85c", "flowers-102"),
    )
    has_official_val = True
    reader = datasets.Flowers102
