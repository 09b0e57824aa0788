"""Sets with masks: ADE20K (Zhou et al., 2017) and PASCAL VOC 2012 (Everingham et al., 2015), also with SBD's masks."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from torchvision import datasets
from torchvision.datasets.voc import DATASET_YEAR_DICT

from data_modules.base import DatasetInfo, Split
from data_modules.files.tables import read_lines
from data_modules.sets.official import Archive
from data_modules.sets.segmentation import SegmentationSet
from lgx.core.task import IGNORE
from lgx.errors import UserError

_ADE = "http://data.csail.mit.edu/places/ADEchallenge/ADEChallengeData2016.zip"
_VOC = DATASET_YEAR_DICT["2012"]


class VOC12(SegmentationSet):
    """PASCAL VOC 2012: 20 classes and background; the borders of objects do not count.

    Files are at ``root/voc12/VOCdevkit/VOC2012``, as torchvision unpacks them.
    """

    info = DatasetInfo(
        name="voc12", num_classes=21, sizes=(1_318, 146, 1_449), license="Flickr's terms of use (images)",
        source="http://host.robots.ox.ac.uk/pascal/VOC/voc2012/",
        splits="test is the official val split (the test labels are not public); val is held out of train",
        img_size=512,
        class_names=(
            "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
            "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
        ),
        kind="segmentation", metric="miou",
    )  # fmt: skip
    marker = "VOCdevkit/VOC2012"
    archives: ClassVar[tuple[Archive, ...]] = (Archive(_VOC["url"], _VOC["md5"]),)
    meanings: ClassVar[Mapping[int, int]] = {value: value for value in range(21)} | {IGNORE: IGNORE}

    def files(self, folder: Path, split: Split) -> list[tuple[Path, Path]]:
        """Image and mask paths, as torchvision lists them: test is the official val, all else the official train."""
        source = datasets.VOCSegmentation(str(folder), image_set="val" if split == "test" else "train")
        return [(Path(image), Path(mask)) for image, mask in zip(source.images, source.masks, strict=True)]


class VOC12Aug(VOC12):
    """VOC12 with the training masks of the Semantic Boundaries Dataset (Hariharan et al., 2011), 10,582 in all.

    Papers that state this number train on them (LSAMD, Table 6); the test images are VOC12's. Beside VOC12's files,
    ``root/voc12_aug/VOCdevkit/VOC2012`` holds the masks, ``SegmentationClassAug/<name>.png``, and their list,
    ``ImageSets/Segmentation/trainaug.txt``. Only authors of other methods offer these two for download.
    """

    info = replace(
        VOC12.info, name="voc12_aug", sizes=(9_524, 1_058, 1_449),
        source="http://home.bharathh.info/pubs/codes/SBD/download.html",
        splits="test is VOC12's val split; val is held out of trainaug",
    )  # fmt: skip
    marker = "VOCdevkit/VOC2012/SegmentationClassAug"
    archives = ()
    manual = (
        "to VOCdevkit/VOC2012 of voc12 add SegmentationClassAug/<name>.png and ImageSets/Segmentation/trainaug.txt, "
        "and give the folder that holds VOCdevkit as --source, or place it at {folder}"
    )

    def files(self, folder: Path, split: Split) -> list[tuple[Path, Path]]:
        """The files of VOC12 for the test; for training those that trainaug.txt lists, which may be no test images."""
        if split == "test":
            return super().files(folder, split)
        base = folder / VOC12.marker
        listed = base / "ImageSets" / "Segmentation" / "trainaug.txt"
        names = [name for line in read_lines(listed) if (name := line.strip())]
        tested = {image.stem for image, _ in super().files(folder, "test")}
        leaked = sorted(tested & set(names))
        if leaked:
            raise UserError(
                f"{self.info.name}: {listed} names {len(leaked):,} test images, first {leaked[0]}; expected the list "
                f"of 10,582 names without them"
            )
        return [(base / "JPEGImages" / f"{name}.jpg", folder / self.marker / f"{name}.png") for name in names]


class ADE20K(SegmentationSet):
    """ADE20K in the form of the Scene Parsing challenge: 150 classes; unlabeled pixels do not count.

    Files are at ``root/ade20k/ADEChallengeData2016/{images,annotations}/{training,validation}``; in a mask,
    0 is unlabeled and k is class k - 1.
    """

    info = DatasetInfo(
        name="ade20k", num_classes=150, sizes=(18_189, 2_021, 2_000),
        license="non-commercial research and education only (images); BSD-3-Clause (annotations)",
        source="http://sceneparsing.csail.mit.edu/",
        splits="test is the official validation split (the test labels are not public); val is held out of training",
        img_size=512, kind="segmentation", metric="miou",
    )  # fmt: skip
    marker = "ADEChallengeData2016"
    archives = (Archive(_ADE, "7328b3957e407ddae1d3cbf487f149ef"),)
    meanings: ClassVar[Mapping[int, int]] = {0: IGNORE} | {value: value - 1 for value in range(1, 151)}

    def files(self, folder: Path, split: Split) -> list[tuple[Path, Path]]:
        """Match images and masks by name."""
        part = "validation" if split == "test" else "training"
        images, masks = (folder / self.marker / kind / part for kind in ("images", "annotations"))
        names = sorted(path.stem for path in images.glob("*.jpg"))
        return [(images / f"{name}.jpg", masks / f"{name}.png") for name in names]
