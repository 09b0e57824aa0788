"""Image sets with official splits, read through torchvision, or from plain class folders of the same set."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from data_modules.base import Split
from data_modules.image_module import ImageDataModule
from data_modules.images import ImageFiles, Images, LabeledImages, class_folders, guarded, read_class_tree
from data_modules.splits import Indices, stratified_split
from lgx.errors import UserError

TREE_NAMES: Mapping[Split, tuple[str, ...]] = {
    "train": ("train",),
    "val": ("val", "validation", "valid"),
    "test": ("test",),
}
"""Folder names that a split may have in a tree of class folders."""


@dataclass(frozen=True)
class Archive:
    """A file that the publishers offer.

    Attributes:
        url: Where it is.
        md5: Its checksum; None where none is known.
        folder: Folder below ``root/<name>`` from which torchvision unpacks it.
    """

    url: str
    md5: str | None = None
    folder: str = "."

    @property
    def filename(self) -> str:
        """Last part of the address."""
        return self.url.rsplit("/", 1)[-1]


class OfficialData(ImageDataModule):
    """A set whose files torchvision reads below ``root/<name>``.

    Where torchvision's files are absent, ``root/<name>/{train,test[,val]}/<class>/*.png|jpg`` serves as well.
    A subclass sets ``info``, ``marker``, ``archives`` and implements :meth:`open`.

    Attributes:
        marker: File or folder below ``root/<name>`` that shows that torchvision's files are there; None where
            only class folders are read.
        tree_names: Folder names of the splits in a tree of class folders.
        archives: What ``lgx data prepare`` downloads.
        manual: What a user has to place where, for a set that cannot be downloaded.
        own_files: What :meth:`bring` looks for, in words; empty where it does nothing.
        has_official_val: Whether :meth:`open` knows the split ``val``.
    """

    marker: ClassVar[str | None] = None
    tree_names: ClassVar[Mapping[Split, tuple[str, ...]]] = TREE_NAMES
    archives: ClassVar[tuple[Archive, ...]] = ()
    manual: ClassVar[str] = ""
    own_files: ClassVar[str] = ""
    has_official_val: ClassVar[bool] = False

    def open(self, folder: Path, split: Split) -> LabeledImages | ImageFiles:
        """Open torchvision's reader of an official split below ``folder``."""
        raise NotImplementedError(f"{type(self).__name__}.open")

    def fetch(self, folder: Path) -> None:
        """Let torchvision unpack ``archives``, which lie below ``folder`` at their places already."""
        raise NotImplementedError(f"{type(self).__name__}.fetch")

    @classmethod
    def bring(cls, source: Path, folder: Path) -> bool:
        """Bring ``own_files`` from ``source`` to ``folder``; False where ``source`` lacks them."""
        return False

    @property
    def folder(self) -> Path:
        """Folder of the set."""
        return self.root_folder / self.info.name

    @classmethod
    def is_present(cls, root: str | Path) -> bool:
        """Whether the set lies below ``root``, in either form (a look at the folders, not at every file)."""
        folder = Path(root) / cls.info.name
        return cls.is_official_form(folder) or tree_split(folder, cls.tree_names["train"]) is not None

    @classmethod
    def is_official_form(cls, folder: Path) -> bool:
        """Whether torchvision's files, not class folders, lie in ``folder``."""
        return cls.marker is not None and (folder / cls.marker).exists()

    def read(self, split: Split) -> Images:
        """Return the examples of one split.

        Raises:
            UserError: If the data are absent, incomplete or corrupted.
        """
        name = self.info.name
        if not self.is_present(self.root):
            raise UserError(
                f"{name}: nothing at {self.folder}; run `lgx data prepare {name} --root {self.root}`"
                if not self.folder.exists()
                else f"{name}: {self.folder} does not hold the files of this set; "
                f"move it away and run `lgx data prepare {name} --root {self.root}`"
            )
        if split == "test":
            return self._part("test")
        if self._has_val():
            return self._part(split)
        kept, held = self.hold_out(self._train)
        return self._train.take(held, f"{name} val") if split == "val" else self._train.take(kept)

    def hold_out(self, train: LabeledImages | ImageFiles) -> tuple[Indices, Indices]:
        """Indices of the training images that stay and of those held out for validation."""
        return stratified_split(train.labels, self.val_fraction, self.split_seed)

    @functools.cached_property
    def _train(self) -> LabeledImages | ImageFiles:
        """Opened once, because two splits come out of it."""
        return self._part("train")

    def _has_val(self) -> bool:
        if self.is_official_form(self.folder):
            return self.has_official_val
        return tree_split(self.folder, self.tree_names["val"]) is not None

    def _part(self, split: Split) -> LabeledImages | ImageFiles:
        where = f"{self.info.name} {split}"
        if not self.is_official_form(self.folder):
            return self._read_tree(split, where)
        remedy = f"remove {self.folder} and run `lgx data prepare {self.info.name} --root {self.root}`"
        images = guarded(lambda: self.open(self.folder, split), f"{where}: {self.folder}", remedy)
        assert isinstance(images, (LabeledImages, ImageFiles))
        if len(images) and not 0 <= images.labels.min() <= images.labels.max() < self.num_classes:
            raise UserError(f"{where}: {self.folder} has labels beyond the {self.num_classes} classes; {remedy}")
        return images

    def _labeled(self, source: Any, labels: Any, split: Split) -> LabeledImages:
        return LabeledImages(source, labels, f"{self.info.name} {split}")

    def _read_tree(self, split: Split, where: str) -> ImageFiles:
        """The training folder decides which classes there are, so that every split counts them alike."""
        place = tree_split(self.folder, self.tree_names[split])
        if place is None:
            expected = self.folder / self.tree_names[split][0] / "<class>/<image>"
            raise UserError(f"{where}: {self.folder} has no folder for this split; expected {expected}")
        train = tree_split(self.folder, self.tree_names["train"]) or place
        classes = class_folders(train)
        if set(classes) == set(self.info.class_names):
            classes = list(self.info.class_names)
        if len(classes) != self.num_classes:
            raise UserError(f"{where}: expected {self.num_classes} class folders in {train}, found {len(classes)}")
        return read_class_tree(place, classes, where)


def tree_split(folder: Path, names: tuple[str, ...]) -> Path | None:
    """The first folder of ``names`` that exists in ``folder``, or None."""
    return next((folder / name for name in names if (folder / name).is_dir()), None)
