"""iNaturalist 2019 (Van Horn et al., 2018; competition of 2019): 1,010 species, labeled by COCO-style tables."""

from pathlib import Path

from data_modules.base import DatasetInfo, Split
from data_modules.files.tables import read_annotations
from data_modules.images.examples import ImageFiles
from data_modules.sets.official import Archive, OfficialData

_URL = "https://ml-inat-competition-datasets.s3.amazonaws.com/2019"
TABLES: dict[Split, str] = {"train": "train2019.json", "test": "val2019.json"}
"""The publishers' table of each split."""


class INaturalist2019(OfficialData):
    """iNaturalist 2019, 268,243 images in its official train and val sets.

    The labels of the official test images were never published, so the official **val** images, three of each
    species, are the **test** split here, and validation images are held out of the training images. LSAMD counts the
    268,243 images as training images and does not state the source of its 64,401 test images.

    Files are at ``root/inat2019``: ``train2019.json``, ``val2019.json``, and
    ``train_val2019/<super category>/<category>/<image>.jpg``.
    """

    info = DatasetInfo(
        name="inat2019", num_classes=1_010, sizes=(238_692, 26_521, 3_030),
        license="non-commercial research and education only",
        source="https://github.com/visipedia/inat_comp/tree/master/2019",
        splits="test is the official val set (the test labels are not public); val is held out of train",
    )  # fmt: skip
    marker = ((*TABLES.values(), "train_val2019/"),)
    archives = (
        Archive(f"{_URL}/train_val2019.tar.gz", "c60a6e2962c9b8ccbd458d12c8582644"),
        Archive(f"{_URL}/train2019.json.tar.gz", "b06a6683537867c0d5c7a45f407a306d"),
        Archive(f"{_URL}/val2019.json.tar.gz", "5cc5509b0fe495f1c8c1362612448497"),
    )

    def open(self, folder: Path, split: Split) -> ImageFiles:
        """Read a table."""
        path = folder / TABLES[split]
        names, labels = read_annotations(path, self.num_classes, "unpack its archive again")
        return ImageFiles(folder, names, labels, f"{self.info.name} {split}")
