"""Image sets in the layout of their publishers, which torchvision reads, or in class folders."""

import functools
import inspect
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from data_modules.base import Split
from data_modules.files.archives import unpack
from data_modules.files.errors import guarded
from data_modules.images.class_trees import TREE_NAMES, class_folders, read_class_tree, tree_split
from data_modules.images.examples import ImageFiles, Images, LabeledImages
from data_modules.images.module import ImageDataModule
from data_modules.library_internals import labels_of
from data_modules.splits import Indices, stratified_split
from lgx.core.markers import Markers, any_exist
from lgx.errors import UserError

TRAIN_AND_TEST = "official train (a stratified share held out as val) and test"


@dataclass(frozen=True)
class Archive:
    """A file that the publishers offer.

    Attributes:
        url: Its address; its name if it cannot be downloaded.
        md5: Its checksum; None if the publishers state none.
        folder: Folder below ``root/<name>`` into which it is unpacked.
    """

    url: str
    md5: str | None = None
    folder: str = "."

    @property
    def filename(self) -> str:
        """Last part of the address."""
        return self.url.rsplit("/", 1)[-1]


class OfficialData(ImageDataModule):
    """Base of the image sets in the layout of their publishers below ``root/<name>``.

    If that layout is absent, ``root/<name>/{train,test[,val]}/<class>/*.png|jpg`` is read instead.
    A subclass sets ``info``, ``marker`` and ``archives`` and implements :meth:`open`; one with class folders alone sets
    ``info`` alone.

    Attributes:
        marker: File or folder below ``root/<name>`` that exists if the set is in the layout of its publishers, or
            several alternatives; none if only class folders are read.
        tree_names: Folder names of the splits in a tree of class folders.
        archives: Files of the publishers, which ``lgx data prepare`` downloads and unpacks.
        manual: For a set that cannot be downloaded: files that a user must provide, and their places.
        has_official_val: Whether :meth:`open` knows the split ``val``.
    """

    marker: ClassVar[str | Markers] = ()
    tree_names: ClassVar[Mapping[Split, tuple[str, ...]]] = TREE_NAMES
    archives: ClassVar[tuple[Archive, ...]] = ()
    manual: ClassVar[str] = ""
    has_official_val: ClassVar[bool] = False

    def open(self, folder: Path, split: Split) -> LabeledImages | ImageFiles:
        """Open ``train``, ``test``, or ``val`` if ``has_official_val``, in the layout of the publishers."""
        raise NotImplementedError(f"{type(self).__name__}.open")

    @classmethod
    def unpack(cls, source: Path, folder: Path) -> None:
        """Unpack or copy ``archives``, which are in ``source``, to their places below ``folder``."""
        for archive in cls.archives:
            place = folder / archive.folder
            place.mkdir(parents=True, exist_ok=True)
            if archive.filename.endswith((".zip", ".tar", ".tgz", ".gz")):
                unpack(source / archive.filename, place)
            else:
                shutil.copy(source / archive.filename, place)

    @classmethod
    def is_present(cls, root: str | Path) -> bool:
        """Whether the set is below ``root``, in either layout. Looks for folders, not for every file."""
        return any_exist(Path(root) / cls.info.name, cls.markers())

    @classmethod
    def is_official_form(cls, folder: Path) -> bool:
        """Whether ``folder`` has the layout of the publishers, not class folders."""
        return any_exist(folder, cls.official_markers())

    @classmethod
    def official_markers(cls) -> Markers:
        """What exists in the set's folder if it has the layout of the publishers."""
        return ((cls.marker,),) if isinstance(cls.marker, str) else cls.marker

    @classmethod
    def markers(cls) -> Markers:
        """What exists in the set's folder if the set is there, in either layout."""
        return (*cls.official_markers(), *((f"{name}/",) for name in cls.tree_names["train"]))

    def read(self, split: Split) -> Images:
        """See :class:`~data_modules.images.module.ImageDataModule`."""
        name = self.info.name
        if not self.is_present(self.root):
            raise UserError(
                f"{name}: no files of this set at {self.folder}; run `lgx data prepare {name} --root {self.root}`"
            )
        if split == "test":
            return self._part("test")
        is_official = self.is_official_form(self.folder)
        if self.has_official_val if is_official else tree_split(self.folder, self.tree_names["val"]):
            return self._part(split)
        kept, held = self.hold_out(self._train)
        return self._train.take(held, f"{name} val") if split == "val" else self._train.take(kept)

    def hold_out(self, train: LabeledImages | ImageFiles) -> tuple[Indices, Indices]:
        """Indices of the training images that remain and of those held out for validation."""
        return stratified_split(train.labels, self.val_fraction, self.split_seed)

    @functools.cached_property
    def _train(self) -> LabeledImages | ImageFiles:
        # Opened once, because both train and val are parts of it.
        return self._part("train")

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

    def _read_tree(self, split: Split, where: str) -> ImageFiles:
        """Read class folders. The training folder defines the classes, so that all splits number them alike."""
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


class TorchvisionSet(OfficialData):
    """Base of the sets that one class of torchvision reads.

    A subclass sets ``reader`` too. :meth:`arguments` fits most of torchvision's classes.

    Attributes:
        reader: torchvision's class.
    """

    reader: ClassVar[Callable[..., Any]]

    def arguments(self, split: Split) -> dict[str, Any]:
        """Arguments with which ``reader`` opens a split."""
        has_train = "train" in inspect.signature(self.reader).parameters
        return {"train": split == "train"} if has_train else {"split": split}

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Open torchvision's reader."""
        source = self.reader(str(folder), **self.arguments(split))
        return LabeledImages(source, labels_of(source), f"{self.info.name} {split}")
