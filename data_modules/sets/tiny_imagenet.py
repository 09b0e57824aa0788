"""Tiny-ImageNet-200 (Le and Yang, 2015): 200 classes of ImageNet at 64 px."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from data_modules.base import DatasetInfo, Split
from data_modules.files.tables import read_lines
from data_modules.images.class_trees import read_class_tree
from data_modules.images.examples import ImageFiles
from data_modules.sets.official import Archive, OfficialData
from lgx.errors import UserError

ANNOTATIONS = "val_annotations.txt"
_INNER = "tiny-imagenet-200"


class TinyImageNet(OfficialData):
    """Tiny-ImageNet-200, classes in the order of its ``wnids.txt``.

    The labels of the official test images were never published, so the official **val** images are the **test** split
    here, and validation images are held out of the training images.

    Files are at ``root/tiny_imagenet`` or in its folder ``tiny-imagenet-200``: ``wnids.txt``,
    ``train/<wnid>/images/*.JPEG``, ``val/images/*.JPEG`` and ``val/val_annotations.txt``.
    """

    info = DatasetInfo(
        name="tiny_imagenet", num_classes=200, sizes=(90_000, 10_000, 10_000),
        license="non-commercial research and education only (ImageNet's terms of access)",
        source="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        splits="test is the official val set (the test labels are not public); val is held out of train", img_size=64,
    )  # fmt: skip
    marker = ((f"{_INNER}/wnids.txt", f"{_INNER}/val/images/"), ("wnids.txt", "val/images/"))
    archives = (Archive("http://cs231n.stanford.edu/tiny-imagenet-200.zip", "90528d7ca1a48142e341f4ef8d21d0de"),)
    tree_names: ClassVar[Mapping[Split, tuple[str, ...]]] = {"train": ("train",), "val": (), "test": ("val",)}

    def open(self, folder: Path, split: Split) -> ImageFiles:
        """Training images by folder; val images by the table of their classes."""
        inner = folder / _INNER
        where = f"{self.info.name} {split}"
        base = inner if inner.is_dir() else folder  # a user may have linked the inner folder
        classes = read_classes(base / "wnids.txt", self.num_classes)
        if split == "train":
            return read_class_tree(base / "train", classes, where)
        table = base / "val" / ANNOTATIONS
        images = base / "val" / "images"
        labels = read_labels(table, classes)
        return ImageFiles(images, list(labels), list(labels.values()), where)


def read_classes(path: Path, count: int) -> list[str]:
    """The classes that ``wnids.txt`` lists, ``count`` in number."""
    classes = " ".join(read_lines(path)).split()
    if len(classes) != count:
        raise UserError(f"{path}: has {len(classes)} classes, expected {count}")
    return classes


def read_labels(table: Path, classes: Sequence[str]) -> dict[str, int]:
    """Class index of each val image, by its name."""
    number = {wnid: k for k, wnid in enumerate(classes)}
    cells = [line.split("\t") for line in read_lines(table)]
    return {name: number[wnid] for name, wnid, *_ in cells}
