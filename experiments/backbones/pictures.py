"""Write images without labels, as a user has them: ``python -m experiments.backbones.pictures FOLDER``.

FOLDER has the archives ``train_50_per_class.zip`` and ``val_all.zip`` of Tiny ImageNet. It writes 2,000 training images
to ``runs/pictures/train`` and 1,000 to ``runs/pictures/val``.
"""

import random
import sys
from pathlib import Path
from zipfile import ZipFile

SPLITS = {"train": ("train_50_per_class.zip", 2_000), "val": ("val_all.zip", 1_000)}


def main(source: Path) -> None:
    """Write both splits."""
    generator = random.Random(0)
    for split, (archive, most) in SPLITS.items():
        out = Path("runs/pictures", split)
        out.mkdir(parents=True, exist_ok=True)
        with ZipFile(source / archive) as files:
            names = sorted(name for name in files.namelist() if name.endswith(".JPEG"))
            for name in generator.sample(names, most):
                (out / Path(name).name).write_bytes(files.read(name))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
