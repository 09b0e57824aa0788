"""Trees of class folders: ``folder/<class>/**/<image>``."""

import functools
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from lightning.pytorch.utilities.rank_zero import rank_zero_info

from data_modules.base import Split
from data_modules.files.tables import read_lines
from data_modules.images.examples import ImageFiles
from lgx.core.schema import LINE
from lgx.errors import UserError
from lgx.host.safety import IMAGE_SUFFIXES, list_images, open_undecoded, skipped_files

TREE_NAMES: Mapping[Split, tuple[str, ...]] = {
    "train": ("train",),
    "val": ("val", "validation", "valid"),
    "test": ("test",),
}
"""Folder names that a split may have in a tree of class folders."""


def class_folders(folder: Path) -> list[str]:
    """Names of the class folders in ``folder``, in the order of :func:`in_order`.

    A folder whose name begins with a dot is ignored; if it contains images, a line reports it.

    Raises:
        UserError: If a name cannot be printed in one line.
    """
    names = []
    for path in folder.iterdir():
        if path.is_dir() and not path.name.startswith("."):
            names.append(path.name)
        elif path.is_dir() and list_images(path, deep=False)[0]:
            say_once(f"{path}: ignored, because its name begins with a dot; rename it if it is a class")
    for name in names:
        if not LINE.holds(name):
            raise UserError(
                f"{folder}: the class folder {name!a} has a tab, a line break or another character that cannot be "
                f"printed in its name; rename it"
            )
    return in_order(names)


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


def read_class_tree(folder: Path, classes: Sequence[str], where: str, others: Collection[str] = ()) -> ImageFiles:
    """Read ``folder/<class>/**/*.{jpg,png,...}``, sorted by class and path, and say which suffixes are not read.

    Args:
        folder: Folder of one split.
        classes: Class folders in index order.
        where: Set and split, for error messages.
        others: Suffixes of files of the set that are not images.

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
    places: dict[str, str] = {}
    labels: list[int] = []
    skipped: Counter[str] = Counter()
    without: list[str] = []
    for label, name in enumerate(classes):
        images, unread = list_images(folder / name)
        for place in {path.parent for path in images}:
            other = places.setdefault(os.path.realpath(place), name)
            if other != name:
                raise UserError(f"{where}: {place} is also linked from class {other}; give each image one class")
        for suffix in others:
            del unread[suffix]
        names += [str(path.relative_to(folder)) for path in images]
        labels += [label] * len(images)
        skipped += unread
        without += [name] if unread and not images else []
    if skipped:
        only = f"; no image is left in {folder / without[0]}" if without else ""
        _say_skipped(folder, skipped, only)
    files = ImageFiles(folder, names, labels, where)
    _say_transparent(files)
    return files


def read_all(folder: Path, where: str, deep: bool = True) -> ImageFiles:
    """Read the images of a folder and, if ``deep``, of all folders below it, in order and all of class 0.

    Raises:
        UserError: If a folder cannot be read.
    """
    images, unread = list_images(folder, deep)
    if unread and images:
        _say_skipped(folder, unread)
    return ImageFiles(folder, [str(path.relative_to(folder)) for path in images], [0] * len(images), where)


def say_unread_folders(folder: Path) -> None:
    """Report folders beside ``train`` that are no split, such as ``dev`` or ``validation2``."""
    read = [name for names in TREE_NAMES.values() for name in names]
    others = sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name not in read)
    others = [name for name in others if not name.startswith(".")]
    if others:
        say_once(f"{folder}: {', '.join(map(ascii, others[:5]))} beside train are ignored; {', '.join(read)} are read")


def _say_skipped(folder: Path, unread: Counter[str], only: str = "") -> None:
    say_once(f"{folder}: {skipped_files(unread)} were skipped{only}; {', '.join(IMAGE_SUFFIXES)} are read")


def _say_transparent(files: ImageFiles) -> None:
    """Report transparent images, if one of 64 evenly spread images is transparent."""
    for path in files.sources():
        with suppress(Exception), open_undecoded(path) as image:  # decoding it will report the error
            if image.has_transparency_data:
                say_once(f"{files.folder}: what is transparent in an image is shown over white ({path!s})")
                return


@functools.cache
def say_once(text: str) -> None:
    """Print a line on the first process; train and val are often read from one folder."""
    rank_zero_info(text.encode(errors="backslashreplace").decode())  # names of files may be invalid text
