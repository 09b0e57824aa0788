"""ImageNet-1K (ILSVRC 2012)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from data_modules.base import DatasetInfo, Split
from data_modules.sets.official import OfficialData


@dataclass(eq=False, repr=False)
class ImageNet(OfficialData):
    """ImageNet-1K at ``root/imagenet/{train,val}/<wnid>/*.JPEG``, classes in the order of their WordNet ids.

    The labels of the official test images were never published, so the official **val** folder is the **test** split
    here, and validation images are held out of the training folder: a model is never chosen by its accuracy on test
    images.

    Args:
        val_fraction: Share of the training images held out for validation; a hundredth of 1.28 million is enough.
    """

    info = DatasetInfo(
        name="imagenet", num_classes=1_000, sizes=(1_268_355, 12_812, 50_000),
        license="non-commercial research and education only (ImageNet's terms of access)",
        source="https://www.image-net.org/",
        splits="test is the official val folder (the test labels are not public); val is held out of train",
    )  # fmt: skip
    manual = (
        "ImageNet may only be downloaded by registered users (https://www.image-net.org/download.php): unpack "
        "ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar into {folder}/train/<wnid>/*.JPEG and "
        "{folder}/val/<wnid>/*.JPEG, or give a folder that holds train/ and val/ as --source"
    )
    tree_names: ClassVar[Mapping[Split, tuple[str, ...]]] = {"train": ("train",), "val": (), "test": ("val",)}
    val_fraction: float = 0.01
