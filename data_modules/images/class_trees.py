"""Trees of class folders: ``folder/<class>/**/<image>``."""

import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from lightning.pytorch.utilities.rank_zero import rank_zero_info

from data_modules.base import Split
from data_modules.files.tables import read_lines
from data_modules.images.examples import ImageFiles
from lgx.errors import UserError
from lgx.host.safety import IMAGE_SUFFIXES, list_images, skipped_files

TREE_NAMES: Mapping[Split, tuple[str, ...]] = {
    "train": ("train",),
    "val": ("val", "validation", "valid"),
    "test": ("test",),
}
"""Folder names that a split may have in a tree of class folders."""


def class_folders(folder: Path) -> list[str]:
    """Names of the class folders in ``folder``, in the order of :func:`in_order`; hidden ones are left out."""
    return in_order([path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")])


def in_order(names: Collection[str]) -> list[str]:
    """Names of classes, sorted as numbers if all are numbers (``01`` before ``1``), else alphabetically."""
    return sorted(names, key=lambda name: (int(name), name)) if all(n.isdecimal() for n in names) else sorted(names)


def listed_classes(file: Path) -> list[str] | None:
    """The classes that ``classes.txt`` lists in index order, one per line; None if there is no such file.

    Raises:
        UserError: If it cannot be read, or names a class twice.
    """
    if not file.is_file():
        return None
    names = [line.strip() for line in read_lines(file) if line.strip()]
    if len(set(names)) < len(names):
        raise UserError(f"{file}: names {Counter(names).most_common(1)[0][0]} twice; give one class per line")
    return names


def tree_split(folder: Path, names: tuple[str, ...]) -> Path | None:
    """The one folder of ``names`` that exists in ``folder``, or None.

    Raises:
        UserError: If several exist.
    """
    existing = [folder / name for name in names if (folder / name).is_dir()]
    if len(existing) > 1:
        raise UserError(f"{folder}: has {' and '.join(path.name for path in existing)}, which name one split; keep one")
    return existing[0] if existing else None


def read_class_tree(folder: Path, classes: Sequence[str], where: str) -> ImageFiles:
    """Read ``folder/<class>/**/*.{jpg,png,...}``, sorted by class and path, and say which suffixes are not read.

    Args:
        folder: Folder of one split.
        classes: Class folders in index order.
        where: Set and split, for error messages.

    Raises:
        UserError: If the class folders are not exactly ``classes``, or one cannot be read.
    """
    folders = class_folders(folder)
    if set(folders) != set(classes):
        missing, extra = sorted(set(classes) - set(folders)), sorted(set(folders) - set(classes))
        # In ASCII, because names in different normalizations of Unicode look the same.
        lacks = f"lacks {', '.join(map(ascii, missing[:3]))}" if missing else ""
        has = f"has the unknown class folders {', '.join(map(ascii, extra[:3]))}" if extra else ""
        problem = " and ".join(filter(None, (lacks, has)))
        raise UserError(f"{where}: {folder} {problem}; expected exactly the {len(classes)} class folders of this set")
    names: list[str] = []
    labels: list[int] = []
    skipped: Counter[str] = Counter()
    for label, name in enumerate(classes):
        images, unread = list_images(folder / name)
        names += [str(path.relative_to(folder)) for path in images]
        labels += [label] * len(images)
        skipped += unread
    if skipped:
        _say_skipped(folder, skipped)
    return ImageFiles(folder, names, labels, where)


def read_all(folder: Path, where: str) -> ImageFiles:
    """Read the images of a folder and of all folders below it, in order and all of class 0.

    Raises:
        UserError: If a folder cannot be read.
    """
    images, unread = list_images(folder)
    if unread and images:
        _say_skipped(folder, unread)
    return ImageFiles(folder, [str(path.relative_to(folder)) for path in images], [0] * len(images), where)


def _say_skipped(folder: Path, unread: Counter[str]) -> None:
    say_once(f"{folder}: {skipped_files(unread)} were skipped; {', '.join(IMAGE_SUFFIXES)} are read")


@functools.cache
def say_once(text: str) -> None:
    """Print a line on the first process; train and val are often read from one folder."""
    rank_zero_info(text.encode(errors="backslashreplace").decode())  # names of files may be invalid text
