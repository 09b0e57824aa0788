"""Oxford-IIIT Pet (Parkhi et al., 2012)."""

from typing import Any

from torchvision import datasets

from data_modules.base import DatasetInfo, Split
from data_modules.official import Archive, TorchvisionSet


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
    archives = tuple(Archive(url, md5, "oxford-iiit-pet") for url, md5 in datasets.OxfordIIITPet._RESOURCES)
    reader = datasets.OxfordIIITPet

    def arguments(self, split: Split) -> dict[str, Any]:
        """See :class:`~data_modules.official.TorchvisionSet`."""
        return {"split": "trainval" if split == "train" else "test"}
