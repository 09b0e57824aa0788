"""Write sets of the mini-Decathlon into class folders, as a user has images: ``python -m experiments.family.images``.

It reads ``data/mini``, which ``lgx data prepare mini`` writes, and writes ``runs/images/<set>/<split>/<class>``.
"""

import random
from pathlib import Path

import webdataset

SETS = ("flowers12", "dtd10", "gtsrb", "fer2013")
MOST = {"train": 1290, "val": 450, "test": 850}
"""Largest number of images of each split."""


def main() -> None:
    """Write every set."""
    for name in SETS:
        for split, most in MOST.items():
            shards = sorted(map(str, Path("data/mini", name).glob(f"{split}-*.tar")))
            examples = [*webdataset.WebDataset(shards, shardshuffle=False, empty_check=False)]
            random.Random(0).shuffle(examples)
            for number, example in enumerate(examples[:most]):
                suffix = next(key for key in example if key in ("png", "jpg", "jpeg"))
                folder = Path("runs/images", name, split, f"{int(example['cls']):02d}")
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{number:04d}.{suffix}").write_bytes(example[suffix])


if __name__ == "__main__":
    main()
