"""All image sets by name: what they are, and whether they lie on the disk."""

import difflib
from pathlib import Path

from data_modules.base import DatasetInfo
from data_modules.classification import DTD, Caltech101, FGVCAircraft, Flowers102, Food101, OxfordIIITPet, StanfordCars
from data_modules.imagenet import ImageNet
from data_modules.official import OfficialData
from data_modules.pocket import POCKET_TASKS, PocketTask, is_made, pocket_info
from data_modules.small_images import CIFAR10, CIFAR100, FER2013, GTSRB, SVHN, FashionMNIST, Omniglot
from lgx.errors import UserError

_CLASSES: tuple[type[OfficialData], ...] = (
    CIFAR10, CIFAR100, DTD, FER2013, GTSRB, SVHN, Caltech101, FGVCAircraft, FashionMNIST, Flowers102, Food101,
    ImageNet, Omniglot, OxfordIIITPet, StanfordCars,
)  # fmt: skip

OFFICIAL: dict[str, type[OfficialData]] = {c.info.name: c for c in sorted(_CLASSES, key=lambda c: c.info.name)}
"""Every set with official splits, by name."""

POCKET: dict[str, PocketTask] = {pocket_info(task).name: task for task in POCKET_TASKS}
"""Every pocket task, by the name of its data set."""


def infos() -> list[DatasetInfo]:
    """Facts of every set, the pocket tasks last."""
    return [c.info for c in OFFICIAL.values()] + [pocket_info(task) for task in POCKET_TASKS]


def is_present(name: str, root: str | Path) -> bool:
    """Whether the set called ``name`` lies below ``root``."""
    return is_made(root, POCKET[name]) if name in POCKET else OFFICIAL[name].is_present(root)


def check_name(name: str) -> None:
    """Refuse an unknown name.

    Raises:
        UserError: With the nearest names.
    """
    names = [*OFFICIAL, "pocket", *POCKET]
    if name in names:
        return
    near = difflib.get_close_matches(name.lower().replace("-", "_"), names, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`lgx data list` shows all names"
    raise UserError(f"name: no data set is called {name}; {hint}")
