"""All data sets by name: what they are, whether they lie on the disk, and the data module that reads them."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_modules.base import DatasetInfo
from data_modules.classification import DTD, Caltech101, FGVCAircraft, Flowers102, Food101, OxfordIIITPet, StanfordCars
from data_modules.decathlon import DECATHLON_TASKS, Decathlon, decathlon_info
from data_modules.decathlon_prepare import prepare_task as prepare_decathlon
from data_modules.folder import ImageFolderData
from data_modules.glue import IMDB, MRPC, RTE, SST2, CoLA, IMDBSubset, TextSet
from data_modules.ham10000 import HAM10000
from data_modules.image_module import ImageDataModule
from data_modules.imagenet import ImageNet
from data_modules.inaturalist import INaturalist2019
from data_modules.mini import MINI_TASKS, MiniDecathlon, check_sources, is_prepared, mini_info, prepare_task
from data_modules.official import TREE_NAMES, OfficialData, tree_split
from data_modules.pocket import POCKET_TASKS, PocketDecathlon, is_made, make_task, pocket_info
from data_modules.pocket.texts import PocketGrammar, PocketParaphrases, PocketReviews
from data_modules.segmentation import ADE20K, VOC12, VOC12Aug
from data_modules.small_images import CIFAR10, CIFAR100, FER2013, GTSRB, SVHN, FashionMNIST, Omniglot
from data_modules.tiny_imagenet import TinyImageNet
from lgx.errors import UserError

_CLASSES: tuple[type[OfficialData], ...] = (
    ADE20K, CIFAR10, CIFAR100, DTD, FER2013, GTSRB, HAM10000, SVHN, VOC12, Caltech101, FGVCAircraft, FashionMNIST,
    Flowers102, Food101, ImageNet, INaturalist2019, Omniglot, OxfordIIITPet, StanfordCars, TinyImageNet, VOC12Aug,
)  # fmt: skip

OFFICIAL: dict[str, type[OfficialData]] = {c.info.name: c for c in sorted(_CLASSES, key=lambda c: c.info.name)}
"""Every set with official splits, by name."""

TEXT_SETS: dict[str, type[TextSet]] = {
    c.info.name: c for c in (CoLA, IMDB, IMDBSubset, MRPC, RTE, SST2, PocketGrammar, PocketParaphrases, PocketReviews)
}
"""Every text set, by name."""


@dataclass(frozen=True)
class Suite:
    """Tasks that are prepared together, each a data set of its own called ``<suite>_<task>``.

    Attributes:
        title: What a user calls it.
        tasks: Data-set name -> name of the task within the suite.
        info: Facts of a task.
        is_present: (root, task) -> whether the task lies below the root.
        check: (task, source) refuses a source that lacks what the task needs.
        prepare: (root, task, source) brings the task to its place unless it is there.
        module: Data module; takes ``task`` and ``root``.
    """

    title: str
    tasks: dict[str, Any]
    info: Callable[[Any], DatasetInfo]
    is_present: Callable[[str | Path, Any], bool]
    check: Callable[[Any, str | None], None]
    prepare: Callable[[str | Path, Any, str | None], Path]
    module: Callable[..., ImageDataModule]


SUITES: dict[str, Suite] = {
    "pocket": Suite(
        "Pocket Decathlon",
        {pocket_info(task).name: task for task in POCKET_TASKS},
        pocket_info,
        is_made,
        lambda task, source: None,
        lambda root, task, source: make_task(root, task),
        PocketDecathlon,
    ),
    "mini": Suite(
        "mini-Decathlon",
        {mini_info(task).name: task for task in MINI_TASKS},
        mini_info,
        is_prepared,
        check_sources,
        prepare_task,
        MiniDecathlon,
    ),
    "decathlon": Suite(
        "Visual Decathlon",
        {decathlon_info(task).name: task for task in DECATHLON_TASKS},
        decathlon_info,
        Decathlon.is_present,
        lambda task, source: None,
        prepare_decathlon,
        Decathlon,
    ),
}
"""Every suite of tasks; ``lgx data prepare SUITE`` prepares all of its tasks."""


def suite_of(name: str) -> Suite | None:
    """The suite that has the task called ``name``, or None."""
    return next((suite for suite in SUITES.values() if name in suite.tasks), None)


def infos() -> list[DatasetInfo]:
    """Facts of every set: of images, the tasks of suites, of texts."""
    single, texts = ([c.info for c in sets.values()] for sets in (OFFICIAL, TEXT_SETS))
    return single + [s.info(task) for s in SUITES.values() for task in s.tasks.values()] + texts


def is_present(name: str, root: str | Path) -> bool:
    """Whether the set called ``name`` lies below ``root``."""
    if name in TEXT_SETS:
        return (Path(root) / name).is_dir()
    suite = suite_of(name)
    return suite.is_present(root, suite.tasks[name]) if suite else OFFICIAL[name].is_present(root)


def open_set(name: str, root: str = "data") -> ImageDataModule:
    """The data module of an image set, with its default options.

    Args:
        name: A name of the catalogue, e.g. ``cifar10`` or ``pocket_digits``, or a folder in
            :class:`~data_modules.folder.ImageFolderData`'s layout, whose own name is then the task's.
        root: Folder below which the sets of the catalogue lie.

    Returns:
        The module; no image was read yet. Its options, e.g. ``img_size``, may be changed until ``setup``.

    Raises:
        UserError: If there is no such set, or it is a text set.
    """
    if name in TEXT_SETS:
        raise UserError(f"{name} is a text set, an image set is needed here; several text sets are `--data MultiText`")
    if name in OFFICIAL:
        return OFFICIAL[name](root=root)
    if suite := suite_of(name):
        return suite.module(task=suite.tasks[name], root=root)
    if tree_split(Path(name), TREE_NAMES["train"]):
        return ImageFolderData(root=name)
    if suite := SUITES.get(name):
        raise UserError(f"{name} is a suite of data sets; name one: {', '.join(suite.tasks)}")
    raise UserError(f"{_unknown(name)}, or give a folder that holds train/<class>/<image>")


def open_text(name: str, root: str = "data") -> TextSet:
    """The data module of a text set, with its default options.

    Args:
        name: A name of the catalogue, e.g. ``cola``.
        root: Folder below which the sets of the catalogue lie.

    Returns:
        The module; no text was read yet. Its options, e.g. ``max_len``, may be changed until ``setup``.

    Raises:
        UserError: If there is no such set, or it is an image set.
    """
    if name in TEXT_SETS:
        return TEXT_SETS[name](root=root)
    if name in OFFICIAL or name in SUITES or suite_of(name):
        raise UserError(f"{name} is an image set, a text set is needed here: {', '.join(TEXT_SETS)}")
    raise UserError(_unknown(name))


def check_name(name: str) -> None:
    """Refuse an unknown name.

    Raises:
        UserError: With the nearest names.
    """
    if name not in OFFICIAL and name not in SUITES and name not in TEXT_SETS and not suite_of(name):
        raise UserError(f"name: {_unknown(name)}")


def _unknown(name: str) -> str:
    names = [*OFFICIAL, *TEXT_SETS, *SUITES, *(task for suite in SUITES.values() for task in suite.tasks)]
    near = difflib.get_close_matches(name.lower().replace("-", "_"), names, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`lgx data list` shows all names"
    return f"no data set is called {name}; {hint}"
