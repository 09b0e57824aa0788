"""Sets for semantic segmentation, a class for every pixel: ADE20K and PASCAL VOC 2012."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torchvision import datasets
from torchvision.datasets.utils import extract_archive
from torchvision.datasets.voc import DATASET_YEAR_DICT

from data_modules.base import DatasetInfo, Split
from data_modules.images import DataError, Images, LabeledImages, open_image
from data_modules.official import Archive, OfficialData
from data_modules.prepare import link
from data_modules.samplers import Key, TransformedImages, mix_seed, seeded_rng
from data_modules.splits import Indices, stratified_order
from data_modules.transforms import MaskTransform
from lgx.core.batch import IGNORE, Batch
from lgx.errors import UserError

_VOC = DATASET_YEAR_DICT["2012"]


class MaskedImages(LabeledImages):
    """Images with a class index for every pixel.

    An image has no class of its own: all ``labels`` are 0, so that draws which are class-stratified elsewhere are plain
    seeded ones here.

    Args:
        files: Paths of the images and of their masks.
        meanings: Class index of each value that a mask's pixel may have.
        where: Set and split, for error messages.
        indices: Which of the files those are, in order; default all.
    """

    def __init__(
        self,
        files: Sequence[tuple[Path, Path]],
        meanings: Mapping[int, int],
        where: str,
        indices: Indices | None = None,
    ) -> None:
        super().__init__(files, np.zeros(len(files) if indices is None else len(indices)), where, indices)
        self.meanings = meanings
        self._table = np.full(256, -1, np.int16)
        self._table[list(meanings)] = list(meanings.values())

    def __getitem__(self, index: int) -> tuple[Image.Image, Any]:
        """The image, and the class indices of its pixels, uint8 (H, W)."""
        image_path, mask_path = self.source[int(self.indices[index])]
        image, mask = self._decode(image_path), self._decode(mask_path)
        if image.size != mask.size:
            raise DataError(
                f"{self.where}: {mask_path} has {mask.width} x {mask.height} pixels, but its image {image_path} has "
                f"{image.width} x {image.height}; both must be of one size"
            )
        return image, self._classes(np.asarray(mask), mask_path)

    def take(self, indices: Indices, where: str | None = None) -> "MaskedImages":
        """The examples at ``indices``."""
        return MaskedImages(self.source, self.meanings, where or self.where, self.indices[indices])

    def encoded(self, index: int) -> tuple[bytes, str] | None:
        """Refuse what shards ask for: they hold one class per image.

        Raises:
            UserError: Always.
        """
        raise UserError(f"{self.where}: masks cannot be written as shards, which hold one class per image")

    def _decode(self, path: Path) -> Image.Image:
        try:
            return open_image(path)
        except Exception as error:
            reason = " ".join(str(error).split())[:160]
            raise DataError(
                f"{self.where}: {path} cannot be decoded ({type(error).__name__}: {reason}); restore the file"
            ) from error

    def _classes(self, values: NDArray[Any], path: Path) -> NDArray[np.uint8]:
        if values.ndim != 2:
            raise DataError(f"{self.where}: {path} is a picture in colors; expected a mask of one label per pixel")
        known = (values >= 0) & (values < 256)
        classes = self._table[np.where(known, values, 0)]
        known &= classes >= 0
        if not known.all():
            last = max(label for label in self.meanings if label != IGNORE)
            others = f" or {IGNORE}" if IGNORE in self.meanings else ""
            raise DataError(
                f"{self.where}: {path} has a pixel labeled {values[~known][0]}; expected 0 to {last}{others}"
            )
        return classes.astype(np.uint8)


class TransformedMasks(TransformedImages):
    """Like :class:`~data_modules.samplers.TransformedImages`, with one transform for an image and its mask."""

    def __getitem__(self, key: int | Key) -> tuple[Tensor, Any]:
        epoch, index = (0, key) if isinstance(key, int) else key
        image, mask = self.images[index]
        with seeded_rng(mix_seed(self.seed, epoch, index)) if self.random else nullcontext():
            moved: tuple[Tensor, Tensor] = self.transform(image, mask)
        return moved


class SegmentationSet(OfficialData):
    """A set of images and masks.

    The labels of the official test images were never published, so the official **validation** split is the **test**
    split here, and validation images are a seeded draw from the training images.

    Attributes:
        meanings: Class index of each value that a mask's pixel may have, ``IGNORE`` for those that do not count.
    """

    meanings: ClassVar[Mapping[int, int]]
    tree_names: ClassVar[Mapping[Split, tuple[str, ...]]] = {"train": (), "val": (), "test": ()}

    def files(self, folder: Path, split: Split) -> list[tuple[Path, Path]]:
        """Paths of the images of an official split below ``folder``, and of their masks."""
        raise NotImplementedError(f"{type(self).__name__}.files")

    def open(self, folder: Path, split: Split) -> MaskedImages:
        """List the files of an official split."""
        return MaskedImages(self.files(folder, split), self.meanings, f"{self.info.name} {split}")

    @classmethod
    def bring(cls, source: Path, folder: Path) -> bool:
        """Link a folder in which the archive is unpacked already."""
        if cls.is_official_form(source):
            link(source, folder)
            return True
        if cls.archives and all((source / archive.filename).exists() for archive in cls.archives):
            return False
        wanted = [f"{cls.marker}/", *(archive.filename for archive in cls.archives)]
        raise UserError(
            f"source: {source} holds nothing that is known of {cls.info.name}; expected {' or '.join(wanted)}"
        )

    def transformed(self, examples: Images, train: bool = False, seed: int | None = None) -> TransformedImages:
        """The examples as tensors, images and masks moved alike."""
        augment = self.augment if train else "none"
        seed = self.seed if seed is None else seed
        return TransformedMasks(examples, MaskTransform(self.task, augment), seed, random=augment != "none")

    def collate(self, examples: Sequence[tuple[Tensor, Any]]) -> Batch:
        """Put transformed images and masks together."""
        images, masks = zip(*examples, strict=True)
        return Batch(torch.stack(images), torch.stack(masks), self.info.name)

    def first(self, examples: Images, count: int, split: Split) -> Images:
        """The first ``count`` examples of a seeded draw."""
        assert isinstance(examples, MaskedImages)
        return examples.take(stratified_order(examples.labels, self.split_seed)[:count])


class ADE20K(SegmentationSet):
    """ADE20K as the Scene Parsing challenge has it (Zhou et al., 2017): 150 classes, unlabeled pixels do not count.

    Files lie at ``root/ade20k/ADEChallengeData2016/{images,annotations}/{training,validation}``; a mask's 0 is
    unlabeled, k is class k - 1.
    """

    info = DatasetInfo(
        name="ade20k",
        num_classes=150,
        sizes=(18_189, 2_021, 2_000),
        license="non-commercial research and education only (images); BSD-3-Clause (annotations)",
        source="http://sceneparsing.csail.mit.edu/",
        splits="test is the official validation split (the test labels are not public); val is held out of training",
        img_size=512,
        kind="segmentation",
        metric="miou",
    )
    marker = "ADEChallengeData2016"
    archives = (
        Archive(
            "http://data.csail.mit.edu/places/ADEchallenge/ADEChallengeData2016.zip", "7328b3957e407ddae1d3cbf487f149ef"
        ),
    )
    meanings: ClassVar[Mapping[int, int]] = {0: IGNORE} | {value: value - 1 for value in range(1, 151)}

    def files(self, folder: Path, split: Split) -> list[tuple[Path, Path]]:
        """Match images and masks by name.

        Raises:
            UserError: If a folder is missing, or an image has no mask.
        """
        part = "validation" if split == "test" else "training"
        images, masks = (folder / self.marker / kind / part for kind in ("images", "annotations"))
        for place in (images, masks):
            if not place.is_dir():
                raise UserError(
                    f"{self.info.name} {split}: {place} is missing; unpack {self.archives[0].filename} again"
                )
        names = sorted(path.stem for path in images.glob("*.jpg"))
        lacking = sorted(set(names) - {path.stem for path in masks.glob("*.png")})
        if lacking:
            raise UserError(
                f"{self.info.name} {split}: {len(lacking):,} of {len(names):,} images have no mask in {masks}, first "
                f"{lacking[0]}.png; unpack {self.archives[0].filename} again"
            )
        return [(images / f"{name}.jpg", masks / f"{name}.png") for name in names]

    def fetch(self, folder: Path) -> None:
        """Unpack."""
        extract_archive(str(folder / self.archives[0].filename), str(folder))


class VOC12(SegmentationSet):
    """PASCAL VOC 2012 (Everingham et al., 2015): 20 classes and background; the borders of objects do not count.

    Files lie at ``root/voc12/VOCdevkit/VOC2012``, as torchvision unpacks them.
    """

    info = DatasetInfo(
        name="voc12",
        num_classes=21,
        sizes=(1_318, 146, 1_449),
        license="Flickr's terms of use (images)",
        source="http://host.robots.ox.ac.uk/pascal/VOC/voc2012/",
        splits="test is the official val split (the test labels are not public); val is held out of train",
        img_size=512,
        class_names=(
            "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
            "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
        ),
        kind="segmentation",
        metric="miou",
    )  # fmt: skip
    marker = "VOCdevkit/VOC2012"
    archives: ClassVar[tuple[Archive, ...]] = (Archive(_VOC["url"], _VOC["md5"]),)
    meanings: ClassVar[Mapping[int, int]] = {value: value for value in range(21)} | {IGNORE: IGNORE}

    def files(self, folder: Path, split: Split) -> list[tuple[Path, Path]]:
        """The paths that torchvision's reader lists."""
        source = datasets.VOCSegmentation(str(folder), image_set="val" if split == "test" else "train")
        return [(Path(image), Path(mask)) for image, mask in zip(source.images, source.masks, strict=True)]

    def fetch(self, folder: Path) -> None:
        """Unpack."""
        datasets.VOCSegmentation(str(folder), download=True)
        (folder / self.archives[0].filename).unlink()


class VOC12Aug(VOC12):
    """VOC12 with the training masks of the Semantic Boundaries Dataset (Hariharan et al., 2011), 10,582 in all.

    Papers that name this number train on them (LSAMD, Table 6); the test images are VOC12's. Beside VOC12's files,
    ``root/voc12_aug/VOCdevkit/VOC2012`` holds the masks, ``SegmentationClassAug/<name>.png``, and their list,
    ``ImageSets/Segmentation/trainaug.txt``; nobody publishes them but the authors of other methods.
    """

    info = DatasetInfo(
        name="voc12_aug",
        num_classes=21,
        sizes=(9_524, 1_058, 1_449),
        license=VOC12.info.license,
        source="http://home.bharathh.info/pubs/codes/SBD/download.html",
        splits="test is VOC12's val split; val is held out of trainaug",
        img_size=512,
        class_names=VOC12.info.class_names,
        kind="segmentation",
        metric="miou",
    )
    marker = "VOCdevkit/VOC2012/SegmentationClassAug"
    archives = ()
    manual = (
        "to VOCdevkit/VOC2012 of voc12 add SegmentationClassAug/<name>.png and ImageSets/Segmentation/trainaug.txt, "
        "and give the folder that holds VOCdevkit as --source, or place it at {folder}"
    )

    def files(self, folder: Path, split: Split) -> list[tuple[Path, Path]]:
        """As VOC12 for the test; for training what trainaug.txt lists.

        Raises:
            UserError: If the list is missing or names test images or files elsewhere.
        """
        if split == "test":
            return super().files(folder, split)
        base = folder / VOC12.marker
        listed = base / "ImageSets" / "Segmentation" / "trainaug.txt"
        if not listed.is_file():
            raise UserError(f"{self.info.name} {split}: {listed} is missing; expected one image name per line")
        names = listed.read_text().split()
        if outside := next((name for name in names if Path(name).name != name), None):
            raise UserError(f"{listed}: names {outside!r}, expected image names without folders")
        tested = {image.stem for image, _ in super().files(folder, "test")}
        if leaked := sorted(tested & set(names)):
            raise UserError(
                f"{self.info.name}: {listed} names {len(leaked):,} test images, first {leaked[0]}; expected the list "
                f"of 10,582 names without them"
            )
        return [(base / "JPEGImages" / f"{name}.jpg", folder / self.marker / f"{name}.png") for name in names]
