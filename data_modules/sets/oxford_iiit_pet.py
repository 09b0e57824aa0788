"""Oxford-IIIT Pet (Parkhi et al., 2012)."""

from typing import Any

from torchvision import datasets

from data_modules.base import DatasetInfo, Split
from data_modules.official import Archive, TorchvisionSet

_URL = "https://www.robots.ox.ac.uk/~vgg/data/pets/data"


class OxfordIIITPet(TorchvisionSet):
    """Oxford-IIIT Pet, 37 breeds of cats and dogs."""

    info = DatasetInfo(
        name="oxford_iiit_pet",
        num_classes=37,
        sizes=(3_312, 368, 3_669),
        license="CC BY-SA 4.0",
        source="https://www.robots.ox.ac.uk/~vgg/data/pets/",
        splits="official trainval (a stratified share held out as val) and test",
    )
    marker = "oxford-iiit-pet"
    archives = (
        Archive(f"{_URL}/images.tar.gz", "5c4f3ee8e5d25df40f4fd59a7f44e54c", "oxford-iiit-pet"),
        Archive(f"{_URL}/annotations.tar.gz", "95a8c909bbe2e81eed6a22bccdf3f68f", "oxford-iiit-pet"),
    )
    reader = datasets.OxfordIIITPet

    def arguments(self, split: Split) -> dict[str, Any]:
        """See :class:`~data_modules.official.TorchvisionSet`."""
        return {"split": "trainval" if split == "train" else "test"}
