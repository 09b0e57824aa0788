"""EuroSAT (Helber et al., 2019): land use in satellite images."""

from pathlib import Path

from torchvision import datasets

from data_modules.base import DatasetInfo, Split
from data_modules.images.examples import LabeledImages
from data_modules.sets.official import Archive, OfficialData
from data_modules.splits import stratified_split

_URL = "https://huggingface.co/datasets/torchgeo/eurosat/resolve/c877bcd43f099cd0196738f714544e355477f3fd/EuroSAT.zip"


class EuroSAT(OfficialData):
    """EuroSAT in RGB. It has no official split: a fixed fifth of each class is test."""

    info = DatasetInfo(
        name="eurosat",
        num_classes=10,
        sizes=(19_440, 2_160, 5_400),
        license="MIT",
        source="https://github.com/phelber/eurosat",
        splits="no official split: a fixed, stratified fifth is test, a share of the rest is held out as val",
        img_size=64,
        class_names=(
            "AnnualCrop", "Forest", "HerbaceousVegetation", "Highway", "Industrial", "Pasture", "PermanentCrop",
            "Residential", "River", "SeaLake",
        ),
    )  # fmt: skip
    marker = "eurosat/2750"
    archives = (Archive(_URL, "c8fa014336c82ac7804f0398fcb19387", "eurosat"),)

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Open torchvision's reader and draw the test images."""
        source = datasets.EuroSAT(str(folder))
        rest, test = stratified_split(source.targets, 0.2, seed=0)
        images = LabeledImages(source, source.targets, f"{self.info.name} {split}")
        return images.take(test if split == "test" else rest)
