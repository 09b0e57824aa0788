"""Class folders of real images, as a user has them: of sets that ``lgx data prepare mini`` wrote.

    python -m experiments.ancestors.class_folders data runs/folders flowers12 dtd10 gtsrb uneven

``uneven`` has the images of flowers12, of which each class keeps a smaller share than the one before it: 60 to 5. Other
sets keep at most 100 training images of a class, ``gtsrb`` 20.
"""

import sys
from collections import Counter
from pathlib import Path

from data_modules.catalog import open_set

_LARGEST, _SMALLEST = 60, 5
_MOST = {"gtsrb": 20}


def write_class_folders(root: Path, out: Path, name: str) -> Path:
    """Write ``out/<name>/{train,test}/<class>/<image>.png``; the held-out images are training images here."""
    is_uneven = name == "uneven"
    module = open_set("mini_flowers12" if is_uneven else f"mini_{name}", str(root))
    module.setup("fit")
    module.setup("test")
    last, kept = module.num_classes - 1, Counter[str]()
    for split in ("train", "val", "test"):
        images = module.examples(split)
        for i in range(len(images)):
            image, label = images[i]
            place = f"{'test' if split == 'test' else 'train'}/{label:02d}"
            kept[place] += 1
            most = _MOST.get(name, 100)
            if is_uneven:
                most = round(_LARGEST * (_SMALLEST / _LARGEST) ** (label / last))
            if split != "test" and kept[place] > most:
                continue
            (out / name / place).mkdir(parents=True, exist_ok=True)
            image.save(out / name / place / f"{split}{i:05d}.png")
    return out / name


if __name__ == "__main__":
    for chosen in sys.argv[3:]:
        print(write_class_folders(Path(sys.argv[1]), Path(sys.argv[2]), chosen))
