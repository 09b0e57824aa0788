"""Images of a user in folders: ``ImageFolderData`` with classes, ``UnlabeledFolderData`` without."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch

from data_modules.base import Split
from data_modules.images.class_trees import class_folders, listed_classes, read_all, read_class_tree
from data_modules.images.examples import Images
from data_modules.own_images.base import OwnImages
from data_modules.own_images.label_table import TABLE, read_label_table
from lgx.core.eval_transforms import pixel_transform
from lgx.errors import UserError
from lgx.host.safety import IMAGE_SUFFIXES

_MEASURED = 256
"""Largest number of training images for measuring mean and std."""


@dataclass(eq=False, repr=False)
class ImageFolderData(OwnImages):
    """Images at ``root/{train,val,test}/<class>/<image>``, or in a table ``root/labels.csv``.

    The table is read if there is no folder ``train``. It has a header and a row per image with the columns ``file``
    (relative to ``root``), ``label`` (the name of its class), and perhaps ``split`` (train, val or test).

    Without a folder ``val``, a stratified share of the training images is held out. The classes are the folders in
    ``train``. Their order is that of numbers if all names are numbers, otherwise the alphabet. A file
    ``root/classes.txt`` with one class folder per line replaces this order.

    With ``in_chans`` other than 1 and 3, files are ``.npy`` arrays, or TIFF images whose bands or pages are channels
    (:class:`~lgx.host.images.ImageReader`). Mean and std are measured on at most 256 training images, unless they are
    given or a network's are followed.

    Args:
        root: The folder that holds ``train`` and ``test``.
    """

    root: str = field()
    any_channels: ClassVar = True

    def __post_init__(self) -> None:
        folder = self.present_root
        train = self.tree("train")
        self.table = read_label_table(folder / TABLE) if train is None and (folder / TABLE).is_file() else None
        if self.table is not None and not self.table.is_single:
            raise UserError(
                f"{folder / TABLE}: has no column label; use --data MultiLabelFolderData for several labels"
            )
        if self.table is None and train is None:
            raise UserError(
                f"data.root: {folder} has no folder train/; expected {folder}/train/<class>/<image>, or a table "
                f"{TABLE} with the columns file and label"
            )
        listed = listed_classes(folder / "classes.txt")
        if listed and self.table:
            raise UserError(f"{folder / 'classes.txt'}: sets the order of class folders; with a {TABLE}, remove it")
        self.classes = list(self.table.classes) if self.table else listed or class_folders(train or folder)
        if len(self.classes) < 2:
            raise UserError(
                f"data.root: expected at least 2 class folders in {train}, found {len(self.classes)} {self.classes}"
            )
        splits = "the folders, or values of the column split, train, val (or a stratified share of train) and test"
        self.info = self.describe(len(self.classes), splits, class_names=tuple(self.classes))
        super().__post_init__()

    @property
    def has_test(self) -> bool:
        """See :class:`~data_modules.base.TaskDataModule`."""
        return "test" in self.table.splits if self.table else super().has_test

    def setup(self, stage: str) -> None:
        """See :class:`~data_modules.loading.module.SingleSet`; also measure mean and std of several channels."""
        super().setup(stage)
        is_stated = self.mean is not None or len(self.info.mean) == self.in_chans
        if self.has_channels and "train" in self._splits and not is_stated:
            images = self.first(self._splits["train"], _MEASURED, "train")
            pixels = torch.stack([pixel_transform(self.task)(images[i][0]) for i in range(len(images))]) / 255
            mean = pixels.mean(dim=(0, 2, 3))
            std = pixels.std(dim=(0, 2, 3)).clamp(min=1e-3)
            self.info = replace(self.info, mean=tuple(mean.tolist()), std=tuple(std.tolist()))

    def read(self, split: Split) -> Images:
        """See :class:`~data_modules.images.module.ImageDataModule`."""
        name = self.info.name
        if self.table is not None:
            files = self.table.images(split, f"{name} {split}")
            return self.part(files, files.labels, split, self.table.has_val)
        has_val = self.tree("val") is not None
        place = self.tree("train" if split == "val" and not has_val else split)
        if place is None:
            raise UserError(f"{name}: {self.root} has no folder {split}/; expected {self.root}/{split}/<class>/<image>")
        files = read_class_tree(place, self.classes, f"{name} {split}")
        if len(files) == 0:
            raise UserError(f"{name} {split}: no image below {place} (looked for {', '.join(IMAGE_SUFFIXES)})")
        if split == "train":
            present = set(np.unique(files.labels).tolist())
            empty = [folder for label, folder in enumerate(self.classes) if label not in present]
            if empty:
                raise UserError(
                    f"{name} train: no image of class {empty[0]} in {place / empty[0]} (looked for "
                    f"{', '.join(IMAGE_SUFFIXES)}); add some or remove the folder"
                )
        return self.part(files, files.labels, split, has_val)


@dataclass(eq=False, repr=False)
class UnlabeledFolderData(OwnImages):
    """Images in a folder and in all folders below it, without labels, for methods that learn from an ancestor only.

    If the folder contains folders ``train``, ``val`` and ``test``, they are the splits; otherwise all images are
    training images. Without ``val``, a share of the training images is held out. Names of other folders are ignored.

    Args:
        root: The folder.
        labels: Always false.
    """

    root: str = field()
    labels: bool = False

    def __post_init__(self) -> None:
        if self.labels:
            raise UserError("data.labels: UnlabeledFolderData has no labels; use ImageFolderData for class folders")
        _ = self.present_root
        splits = "the folders train, val (or a share of train) and test, or a share of all images as val"
        self.info = self.describe(0, splits)
        super().__post_init__()

    def read(self, split: Split) -> Images:
        """The images of one split, all of class 0."""
        name = self.info.name
        folder = self.root_folder
        train, tree = self.tree("train"), self.tree(split)
        if split == "test" and (train is None or tree is None):
            raise UserError(f"{name}: {folder} has no folder test/ beside a folder train/; add it, or only train")
        has_val = train is not None and self.tree("val") is not None
        place = (tree if split == "test" or has_val else train) or folder
        files = read_all(place, f"{name} {split}")
        if len(files) == 0:
            raise UserError(f"{name} {split}: no images in {place} or below (looked for {', '.join(IMAGE_SUFFIXES)})")
        return self.part(files, files.labels, split, has_val)
