"""DTD, the Describable Textures Dataset (Cimpoi et al., 2014)."""

from torchvision import datasets

from data_modules.base import DatasetInfo
from data_modules.official import Archive, TorchvisionSet


class DTD(TorchvisionSet):
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
    archives = (
        Archive(
            "https://www.robots.ox.ac.uk/~vgg/data/dtd/download/dtd-r1.0.1.tar.gz",
            "fff73e5086ae6bdbea199a49dfb8a4c1",
            "dtd",
        ),
    )
    has_official_val = True
    reader = datasets.DTD
