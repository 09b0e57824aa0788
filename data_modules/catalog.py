"""Find data sets by name: their facts, whether they are present, and their data modules."""

import difflib
from contextlib import suppress
from pathlib import Path
from typing import Any

from data_modules.base import SPLITS, DatasetInfo
from data_modules.images.class_trees import TREE_NAMES, class_folders, tree_split
from data_modules.images.module import ImageDataModule
from data_modules.own_images.class_folders import ImageFolderData
from data_modules.own_images.label_table import TABLE, read_label_table
from data_modules.registry import IMAGE_SETS, SUITES, TEXT_SETS
from data_modules.suites.suite import Suite
from data_modules.text.module import TextSet
from lgx.core.markers import Markers, any_exist
from lgx.core.task import ImageSize, Normalization, Reading
from lgx.errors import UserError


def suite_of(name: str) -> Suite[Any] | None:
    """The suite that has the task called ``name``, or None."""
    return next((suite for suite in SUITES.values() if name in suite.tasks), None)


def find_suite(name: str) -> Suite[Any] | None:
    """The suite called ``name``, or that has the task called ``name``, or None."""
    return SUITES.get(name) or suite_of(name)


def infos() -> list[DatasetInfo]:
    """Facts of every set: of images, the tasks of suites, of texts."""
    single, texts = ([c.info for c in sets.values()] for sets in (IMAGE_SETS, TEXT_SETS))
    return single + [s.info(task) for s in SUITES.values() for task in s.tasks.values()] + texts


def markers(name: str) -> Markers:
    """Files and folders below ``root`` that exist if the set ``name`` is there."""
    if name in TEXT_SETS:
        return ((f"{name}/",),)
    suite = suite_of(name)
    if suite:
        return suite.markers(suite.tasks[name])
    return tuple(tuple(f"{name}/{place}" for place in alternative) for alternative in IMAGE_SETS[name].markers())


def facts() -> list[dict[str, Any]]:
    """Facts of every set as plain values, of which ``lgx/commands/data_sets.json`` is a copy."""
    return [
        {
            "name": info.name,
            "classes": info.num_classes,
            "sizes": dict(zip(SPLITS, info.sizes, strict=True)),
            "splits": info.splits,
            "license": info.license,
            "source": info.source,
            "markers": [list(names) for names in markers(info.name)],
        }
        for info in infos()
    ]


def is_present(name: str, root: str | Path) -> bool:
    """Whether the files of the set called ``name`` are below ``root``."""
    return any_exist(Path(root), markers(name))


def open_set(name: str, root: str = "data") -> ImageDataModule:
    """The data module of an image set, with its default options.

    Args:
        name: A name of the catalog, e.g. ``cifar10`` or ``pocket_digits``, or a folder in
            :class:`~data_modules.own_images.class_folders.ImageFolderData`'s layout, whose own name is then the task's.
        root: Folder that contains the sets of the catalog.

    Returns:
        The module; no image was read yet. Its options, e.g. ``img_size``, may be changed until ``setup``.

    Raises:
        UserError: If there is no such set, or it is a text set.
    """
    if name in TEXT_SETS:
        raise UserError(f"{name} is a text set, not an image set; for several text sets give `--data MultiText`")
    if name in IMAGE_SETS:
        return IMAGE_SETS[name](root=root)
    suite = suite_of(name)
    if suite:
        return suite.module(suite.tasks[name], root)
    if tree_split(Path(name), TREE_NAMES["train"]) or (Path(name) / TABLE).is_file():
        return ImageFolderData(root=name)
    suite = SUITES.get(name)
    if suite:
        raise UserError(f"{name} is a suite of data sets; name one: {', '.join(suite.tasks)}")
    raise UserError(f"{_unknown(name)}, or give a folder that holds train/<class>/<image>")


def has_classes(folder: Path) -> bool:
    """Whether a folder names one class for each training image: by class folders, or in a table."""
    train = tree_split(folder, TREE_NAMES["train"])
    if train is not None:
        return len(class_folders(train)) > 1
    with suppress(UserError):  # a table of texts, or a wrong one, which is named when its images are read
        return (folder / TABLE).is_file() and read_label_table(folder / TABLE).is_single
    return False


def open_classes(
    option: str, data: str, img_size: ImageSize, in_chans: int, inputs: Normalization | None, reading: Reading
) -> ImageDataModule:
    """A set with one class for each image, in the form of a network's inputs.

    Args:
        option: The option that names it.
        data: Name of the set, or folder with ``train/<class>/<image>``.
        img_size: Size of the images.
        in_chans: Their channels.
        inputs: Mean and std; None for the set's own.
        reading: How the files are read.

    Raises:
        UserError: If the data cannot be read or are of another kind.
    """
    module = open_set(data)
    module.img_size, module.in_chans = img_size, in_chans
    module.follow_reading(reading)
    if module.task.kind != "classification":
        raise UserError(f"{option} {data}: is for {module.task.kind}; give a set with one class for each image")
    if inputs is not None:
        module.follow_normalization(*inputs)
    module.check_options()
    module.prepare_data()
    module.setup("fit")
    return module


def open_text(name: str, root: str = "data") -> TextSet:
    """The data module of a text set such as ``cola`` below ``root``, with its default options; see :func:`open_set`.

    Raises:
        UserError: If there is no such set, or it is an image set.
    """
    if name in TEXT_SETS:
        return TEXT_SETS[name](root=root)
    if name in IMAGE_SETS or name in SUITES or suite_of(name):
        raise UserError(f"{name} is an image set, but a text set is needed: {', '.join(TEXT_SETS)}")
    raise UserError(_unknown(name))


def check_name(name: str) -> None:
    """Refuse a name that no set or suite has, with the most similar names."""
    if name not in IMAGE_SETS and name not in SUITES and name not in TEXT_SETS and not suite_of(name):
        raise UserError(f"name: {_unknown(name)}")


def _unknown(name: str) -> str:
    names = [*IMAGE_SETS, *TEXT_SETS, *SUITES, *(task for suite in SUITES.values() for task in suite.tasks)]
    near = difflib.get_close_matches(name.lower().replace("-", "_"), names, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`lgx data list` shows all names"
    return f"unknown data set {name}; {hint}"
