"""Read the archives of the mini-Decathlon: zip files of encoded images, which are held in memory and split."""

import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from data_modules.base import Split
from data_modules.files.errors import decoding, guarded
from data_modules.images.class_trees import in_order
from data_modules.sets.tiny_imagenet import ANNOTATIONS, read_classes, read_labels
from data_modules.splits import Indices, grouped_split, stratified_split
from lgx.errors import UserError
from lgx.host.images import ImageReader
from lgx.host.safety import IMAGE_SUFFIXES, open_undecoded

SHORT_SIDE = 64
"""Largest short side of a stored image, in pixels; larger images are reduced."""

Named = list[tuple[PurePosixPath, bytes]]
"""Path within the archive and encoded image, sorted by path."""
_KEPT = (".jpg", ".jpeg", ".png")
"""Suffixes of files whose bytes may be stored unchanged."""


class EncodedImages:
    """Encoded images of one split, which are decoded, and reduced if large, when they are stored."""

    def __init__(self, examples: Named, labels: Indices, where: str = "") -> None:
        self.examples, self.labels, self.where = examples, labels, where

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        path, data = self.examples[index]
        with decoding(f"{self.where}: {path}", "fetch its archive again"):
            image = ImageReader()(data)
        assert isinstance(image, Image.Image)
        scale = SHORT_SIDE / min(image.size)
        if scale < 1:
            width, height = (max(SHORT_SIDE, round(side * scale)) for side in image.size)
            image = image.resize((width, height), Image.Resampling.BICUBIC)
        return image, int(self.labels[index])

    def encoded(self, index: int) -> tuple[bytes, str]:
        """Bytes and suffix of the stored image; a JPEG or PNG that is neither resized nor converted stays as it is."""
        path, data = self.examples[index]
        image, _ = self[index]
        suffix = "jpg" if path.suffix.lower() in (".jpg", ".jpeg") else "png"
        with open_undecoded(data) as original:
            if (original.size, original.mode) == (image.size, image.mode) and path.suffix.lower() in _KEPT:
                return data, suffix
        buffer = io.BytesIO()
        image.save(buffer, "jpeg" if suffix == "jpg" else "png", quality=95)
        return buffer.getvalue(), suffix

    def take(self, indices: Indices) -> "EncodedImages":
        """The images at ``indices``."""
        return EncodedImages([self.examples[i] for i in indices.tolist()], self.labels[indices], self.where)


Splits = dict[Split, EncodedImages]


def read_zip(path: Path) -> Named:
    """Read all images of a zip file into memory.

    Raises:
        UserError: If the archive is damaged or holds no image.
    """
    found: Named = guarded(lambda: _read_images(path), str(path), "fetch it again")
    if not found:
        raise UserError(f"{path}: holds no image (looked for {', '.join(IMAGE_SUFFIXES)}); fetch it again")
    return found


def _read_images(path: Path) -> Named:
    with zipfile.ZipFile(path) as archive:
        members = sorted((PurePosixPath(name), name) for name in archive.namelist())
        images = ((place, name) for place, name in members if place.suffix.lower() in IMAGE_SUFFIXES)
        return [(place, archive.read(name)) for place, name in images if not place.name.startswith(".")]


def class_trees(folder: Path) -> Splits:
    """Read ``<split>.zip`` with ``<split>/<class>/<image>``; without ``validation.zip`` a tenth of train is val."""
    validation = folder / "validation.zip"
    train, test = (_labeled(folder / f"{name}.zip") for name in ("train", "test"))
    return _official(train, test, _labeled(validation) if validation.exists() else None)


def tracks(folder: Path) -> Splits:
    """Read one archive with ``gtsrb/<class>/<track>_<frame>.ppm``; a track is never split."""
    images = _labeled(folder / "gtsrb_100_per_class.zip")
    names = [name.stem.split("_")[0] for name, _ in images.examples]
    return _hold_out(images, lambda labels, i, share: grouped_split(labels, [names[k] for k in i.tolist()], share, 0))


def one_tree(folder: Path) -> Splits:
    """Read one archive with ``images/<class>/<image>``."""
    images = _labeled(folder / "dtd10_short128.zip")
    return _hold_out(images, lambda labels, _, share: stratified_split(labels, share, 0))


def drawers(folder: Path) -> Splits:
    """Read two archives with ``<half>/<alphabet>/<character>/<number>_<drawer>.png``, which share two alphabets."""
    drawings: dict[PurePosixPath, bytes] = {}
    for half in ("images_background_small1", "images_background_small2"):
        for name, data in read_zip(folder / f"{half}.zip"):
            if len(name.parts) != 4 or not name.stem.split("_")[-1].isdecimal():
                raise UserError(
                    f"{folder / half}.zip: holds {name}, expected {half}/<alphabet>/<character>/<number>_<drawer>.png"
                )
            drawings[PurePosixPath(*name.parts[1:])] = data
    examples = sorted(drawings.items())
    characters = [name.parent for name, _ in examples]
    images = EncodedImages(examples, np.unique([str(c) for c in characters], return_inverse=True)[1])
    drawer = np.array([int(name.stem.split("_")[-1]) for name, _ in examples])
    chosen = {"train": drawer <= 11, "val": (drawer > 11) & (drawer <= 15), "test": drawer > 15}
    return {split: images.take(np.flatnonzero(chosen[split])) for split in ("train", "val", "test")}


def tiny_imagenet(folder: Path) -> Splits:
    """Read training images by folder. The official val images, whose classes a text file gives, are the test."""
    classes = read_classes(folder / "wnids.txt", 200)
    train, test = _labeled(folder / "train_50_per_class.zip", classes), read_zip(folder / "val_all.zip")
    label_of = read_labels(folder / ANNOTATIONS, classes)
    if unknown := next((name.name for name, _ in test if name.name not in label_of), None):
        raise UserError(f"{folder / ANNOTATIONS}: gives no class for {unknown} of val_all.zip; fetch it again")
    labels = np.array([label_of[name.name] for name, _ in test])
    return _official(train, EncodedImages(test, labels))


def without_repeats(images: EncodedImages, others: Sequence[EncodedImages]) -> EncodedImages:
    """Drop images whose bytes occur in ``others`` or earlier in ``images``."""
    known = {data for other in others for _, data in other.examples}
    first: dict[bytes, int] = {}
    for i, (_, data) in enumerate(images.examples):
        first.setdefault(data, i)
    return images.take(np.array([i for data, i in first.items() if data not in known], np.int64))


def _official(train: EncodedImages, test: EncodedImages, val: EncodedImages | None = None) -> Splits:
    """Drop copies of test from val, and of both from train; without ``val`` hold a stratified tenth of train out."""
    if val is not None:
        val = without_repeats(val, [test])
        return {"train": without_repeats(train, [test, val]), "val": val, "test": test}
    train = without_repeats(train, [test])
    kept, held = stratified_split(train.labels, 0.1, 0)
    return {"train": train.take(kept), "val": train.take(held), "test": test}


def _hold_out(images: EncodedImages, split: Callable[[Indices, Indices, float], tuple[Indices, Indices]]) -> Splits:
    """Make a fifth test and a tenth val.

    ``split`` maps labels (N,), positions in ``images`` (N,) and a share to indices of 0 to N - 1: kept, held out.
    """
    images = without_repeats(images, [])
    everything = np.arange(len(images))
    rest, test = split(images.labels, everything, 0.2)
    kept, held = split(images.labels[rest], rest, 0.1 / 0.8)  # a tenth of all, of the four fifths left
    return {"train": images.take(rest[kept]), "val": images.take(rest[held]), "test": images.take(test)}


def _labeled(path: Path, classes: Sequence[str] | None = None) -> EncodedImages:
    """Images of a zip file; its second folders are the classes, ordered as numbers if all are, else by alphabet."""
    examples = read_zip(path)
    if bad := next((name for name, _ in examples if len(name.parts) < 3), None):
        raise UserError(f"{path}: holds {bad}, expected <folder>/<class>/<image>")
    found = {name.parts[1] for name, _ in examples}
    if classes is None:
        classes = in_order(found)
    elif unknown := found - set(classes):
        raise UserError(f"{path}: holds the class {min(unknown)} that wnids.txt does not name; fetch both again")
    number = {name: k for k, name in enumerate(classes)}
    return EncodedImages(examples, np.array([number[name.parts[1]] for name, _ in examples], np.int64))
