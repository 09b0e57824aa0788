"""FGVC-Aircraft (Maji et al., 2013)."""

from torchvision import datasets

from data_modules.base import DatasetInfo
from data_modules.official import Archive, TorchvisionSet


class FGVCAircraft(TorchvisionSet):
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
    archives = (Archive("https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/archives/fgvc-aircraft-2013b.tar.gz"),)
    has_official_val = True
    reader = datasets.FGVCAircraft
