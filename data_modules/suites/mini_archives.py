"""Read the archives of the mini-Decathlon: zip files of images, which are unpacked and split."""

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from data_modules.base import Split
from data_modules.files.archives import unpack
from data_modules.images.class_trees import in_order
from data_modules.images.examples import ImageFiles
from data_modules.sets.tiny_imagenet import ANNOTATIONS, read_classes, read_labels
from data_modules.splits import Indices, grouped_split, stratified_split
from lgx.errors import UserError
from lgx.host.safety import IMAGE_SUFFIXES, list_images, open_undecoded

SHORT_SIDE = 64
"""Largest short side of a stored image, in pixels; larger images are reduced."""
_KEPT = (".jpg", ".jpeg", ".png")
"""Suffixes of files whose bytes may be stored unchanged."""


class SmallFiles(ImageFiles):
    """Image files that are reduced, if large, when they are stored."""

    def decoded(self, index: int) -> Image.Image:
        """Decode one file, and reduce it."""
        image: Image.Image = super().decoded(index)
        scale = SHORT_SIDE / min(image.size)
        if scale < 1:
            width, height = (max(SHORT_SIDE, round(side * scale)) for side in image.size)
            image = image.resize((width, height), Image.Resampling.BICUBIC)
        return image

    def encoded(self, index: int) -> tuple[bytes, str]:
        """Bytes and suffix of the stored image; a JPEG or PNG that is neither resized nor converted stays as it is."""
        path = self.path(index)
        image = self.decoded(index)
        suffix = "jpg" if path.suffix.lower() in (".jpg", ".jpeg") else "png"
        with open_undecoded(path) as original:
            if (original.size, original.mode) == (image.size, image.mode) and path.suffix.lower() in _KEPT:
                return path.read_bytes(), suffix
        buffer = io.BytesIO()
        image.save(buffer, "jpeg" if suffix == "jpg" else "png", quality=95)
        return buffer.getvalue(), suffix


Splits = Mapping[Split, SmallFiles]


def class_trees(folder: Path, scratch: Path) -> Splits:
    """Read ``<split>.zip`` with ``<split>/<class>/<image>``; without ``validation.zip`` a tenth of train is val."""
    validation = folder / "validation.zip"
    train, test = (_labeled(folder / f"{name}.zip", scratch) for name in ("train", "test"))
    return _official(train, test, _labeled(validation, scratch) if validation.exists() else None)


def tracks(folder: Path, scratch: Path) -> Splits:
    """Read one archive with ``gtsrb/<class>/<track>_<frame>.ppm``; a track is never split."""
    images = _labeled(folder / "gtsrb_100_per_class.zip", scratch)
    names = [images.path(k).stem.split("_")[0] for k in range(len(images))]
    return _hold_out(images, lambda labels, i, share: grouped_split(labels, [names[k] for k in i.tolist()], share, 0))


def one_tree(folder: Path, scratch: Path) -> Splits:
    """Read one archive with ``images/<class>/<image>``."""
    images = _labeled(folder / "dtd10_short128.zip", scratch)
    return _hold_out(images, lambda labels, _, share: stratified_split(labels, share, 0))


def drawers(folder: Path, scratch: Path) -> Splits:
    """Read two archives with ``<half>/<alphabet>/<character>/<number>_<drawer>.png``, which share two alphabets."""
    drawings: dict[Path, Path] = {}
    for half in ("images_background_small1", "images_background_small2"):
        for name in _unpacked(folder / f"{half}.zip", scratch):
            drawings[Path(*name.parts[1:])] = half / name
    names = sorted(drawings)
    labels = np.unique([str(name.parent) for name in names], return_inverse=True)[1]
    images = SmallFiles(scratch, [str(drawings[name]) for name in names], labels, "omniglot")
    drawer = np.array([int(name.stem.split("_")[-1]) for name in names])
    chosen = {"train": drawer <= 11, "val": (drawer > 11) & (drawer <= 15), "test": drawer > 15}
    return {split: images.take(np.flatnonzero(chosen[split])) for split in ("train", "val", "test")}


def tiny_imagenet(folder: Path, scratch: Path) -> Splits:
    """Read training images by folder. The official val images, whose classes a text file gives, are the test."""
    classes = read_classes(folder / "wnids.txt", 200)
    train = _labeled(folder / "train_50_per_class.zip", scratch, classes)
    names = _unpacked(folder / "val_all.zip", scratch)
    label_of = read_labels(folder / ANNOTATIONS, classes)
    labels = [label_of[name.name] for name in names]
    return _official(train, SmallFiles(scratch / "val_all", list(map(str, names)), labels, "tiny_imagenet test"))


def without_repeats(images: SmallFiles, others: Sequence[SmallFiles]) -> SmallFiles:
    """Drop images whose bytes occur in ``others`` or earlier in ``images``."""
    seen = {content for other in others for content in _contents(other)}
    first: dict[bytes, int] = {}
    for index, content in enumerate(_contents(images)):
        first.setdefault(content, index)
    return images.take(np.array([index for content, index in first.items() if content not in seen], np.int64))


def _contents(images: SmallFiles) -> list[bytes]:
    """Digest of each file."""
    return [hashlib.sha256(images.path(k).read_bytes()).digest() for k in range(len(images))]


def _official(train: SmallFiles, test: SmallFiles, val: SmallFiles | None = None) -> Splits:
    """Drop copies of test from val, and of both from train; without ``val`` hold a stratified tenth of train out."""
    if val is not None:
        val = without_repeats(val, [test])
        return {"train": without_repeats(train, [test, val]), "val": val, "test": test}
    train = without_repeats(train, [test])
    kept, held = stratified_split(train.labels, 0.1, 0)
    return {"train": train.take(kept), "val": train.take(held), "test": test}


def _hold_out(images: SmallFiles, split: Callable[[Indices, Indices, float], tuple[Indices, Indices]]) -> Splits:
    """Make a fifth test and a tenth val.

    ``split`` maps labels (N,), positions in ``images`` (N,) and a share to indices of 0 to N - 1: kept, held out.
    """
    images = without_repeats(images, [])
    everything = np.arange(len(images))
    rest, test = split(images.labels, everything, 0.2)
    kept, held = split(images.labels[rest], rest, 0.1 / 0.8)  # a tenth of all, of the four fifths left
    return {"train": images.take(rest[kept]), "val": images.take(rest[held]), "test": images.take(test)}


def _unpacked(path: Path, scratch: Path) -> list[Path]:
    """Unpack a zip file into a folder of its name below ``scratch``; the paths of its images there, sorted."""
    place = scratch / path.stem
    unpack(path, place)
    names = sorted(file.relative_to(place) for file in list_images(place)[0])
    if not names:
        raise UserError(f"{path}: holds no image (looked for {', '.join(IMAGE_SUFFIXES)}); fetch it again")
    return names


def _labeled(path: Path, scratch: Path, classes: Sequence[str] | None = None) -> SmallFiles:
    """Images of a zip file; its second folders are the classes, ordered as numbers if all are, else by alphabet."""
    names = _unpacked(path, scratch)
    folders = {name.parts[1] for name in names}
    if classes is None:
        classes = in_order(folders)
    number = {name: k for k, name in enumerate(classes)}
    return SmallFiles(scratch / path.stem, list(map(str, names)), [number[name.parts[1]] for name in names], str(path))
