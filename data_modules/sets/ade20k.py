"""ADE20K (Zhou et al., 2017)."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from data_modules.base import DatasetInfo, Split
from data_modules.sets.official import Archive
from data_modules.sets.segmentation import SegmentationSet
from lgx.core.batch import IGNORE
from lgx.errors import UserError


class ADE20K(SegmentationSet):
    """ADE20K in the form of the Scene Parsing challenge: 150 classes; unlabeled pixels do not count.

    Files are at ``root/ade20k/ADEChallengeData2016/{images,annotations}/{training,validation}``; in a mask,
    0 is unlabeled and k is class k - 1.
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
