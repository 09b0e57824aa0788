"""Write sets of the mini-Decathlon into class folders, as a user has images: ``python -m experiments.family.images``.

It reads ``data/mini``, which ``lgx data prepare mini`` writes, and writes ``runs/images/<set>/<split>/<class>``.
"""

import random
from pathlib import Path

import webdataset

from data_modules.suites.mini_decathlon import FACTS, MiniTask

SETS: tuple[MiniTask, ...] = ("flowers12", "dtd10", "gtsrb", "fer2013", "cifar10")
MOST = {"train": 1290, "val": 450, "test": 850}
"""Largest number of images of each split."""


def main() -> None:
    """Write every set."""
    for name in SETS:
        for split, most in MOST.items():
            folders = [Path("runs/images", name, split, f"{label:02d}") for label in range(FACTS[name].num_classes)]
            for folder in folders:  # also of classes without an image
                folder.mkdir(parents=True, exist_ok=True)
            shards = sorted(map(str, Path("data/mini", name).glob(f"{split}-*.tar")))
            examples = [*webdataset.WebDataset(shards, shardshuffle=False, empty_check=False)]
            random.Random(0).shuffle(examples)
            for number, example in enumerate(examples[:most]):
                suffix = next(key for key in example if key in ("png", "jpg", "jpeg"))
                (folders[int(example["cls"])] / f"{number:04d}.{suffix}").write_bytes(example[suffix])


if __name__ == "__main__":
    main()
