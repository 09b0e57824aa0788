"""Omniglot (Lake et al., 2015)."""

from pathlib import Path

import numpy as np
from torchvision import datasets

from data_modules.base import DatasetInfo, Split
from data_modules.images.examples import LabeledImages
from data_modules.library_internals import omniglot_characters
from data_modules.sets.official import Archive, TorchvisionSet


class Omniglot(TorchvisionSet):
    """Omniglot with all 1,623 characters of both halves as classes, split by drawer.

    Every character was drawn once by each of 20 people: 1-11 are train, 12-15 val, 16-20 test. ``val_fraction`` has no
    effect.
    """

    info = DatasetInfo(
        name="omniglot",
        num_classes=1_623,
        sizes=(17_853, 6_492, 8_115),
        license="MIT",
        source="https://github.com/brendenlake/omniglot",
        splits="by drawer: 1-11 train, 12-15 val, 16-20 test (there is no official split for classification)",
        img_size=105,
        in_chans=1,
        mean=(0.922,),
        std=(0.268,),
    )
    marker = "omniglot-py"
    archives = tuple(
        Archive(f"{datasets.Omniglot.download_url_prefix}/{half}.zip", md5, "omniglot-py")
        for half, md5 in datasets.Omniglot.zips_md5.items()
    )
    keeps_archives = True  # torchvision checks their md5 whenever it opens the set
    has_official_val = True
    reader = datasets.Omniglot

    def open(self, folder: Path, split: Split) -> LabeledImages:
        """Open both halves; a file is called ``<character>_<drawer>.png``."""
        halves = [self.reader(str(folder), background=background) for background in (True, False)]
        (first_half, shift), (second_half, _) = map(omniglot_characters, halves)
        names = [name for name, _ in (*first_half, *second_half)]
        labels = [c for _, c in first_half] + [c + shift for _, c in second_half]
        drawer = np.array([int(Path(name).stem.split("_")[1]) for name in names])
        first, last = {"train": (1, 11), "val": (12, 15), "test": (16, 20)}[split]
        chosen = np.flatnonzero((drawer >= first) & (drawer <= last))
        source = halves[0] + halves[1]
        return LabeledImages(source, np.array(labels)[chosen], f"{self.info.name} {split}", chosen)

    def unpack(self, folder: Path) -> None:
        """Let torchvision check and unpack both halves."""
        for background in (True, False):
            self.reader(str(folder), background=background, download=True)
