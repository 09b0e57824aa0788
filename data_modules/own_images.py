"""What the data modules of a user's own image files share: splits by group, and a look for images in two splits."""

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import cast

from lightning.pytorch.utilities.rank_zero import rank_zero_only

from data_modules.base import Split
from data_modules.class_trees import say_once
from data_modules.image_module import ImageDataModule
from data_modules.images import ImageFiles, Images, files_of
from data_modules.label_table import table_rows
from data_modules.splits import Indices, split_by_group, stratified_split
from lgx.core.csv_cells import refuse_doubles
from lgx.core.schema import shortened
from lgx.errors import UserError

_COMPARED = 50_000
"""Most images of a set whose contents are compared, which takes a few seconds if all have one size."""
_SAMPLE = 4096
"""Bytes at the end of a file that are compared before the whole file is."""

_Places = list[tuple[Split, Path]]
"""Files with the splits that they are in."""


@dataclass(eq=False, repr=False)
class OwnImages(ImageDataModule):
    """Base of the data modules that read a user's own image files.

    Args:
        groups: Keep images of one group (a patient, a place) in one split when validation images are held out: a CSV
            file with the columns ``file``, relative to ``root``, and ``group``; or a regular expression with one group
            in parentheses, e.g. ``(patient[0-9]+)_``, that is searched in the path of each image below its class folder
            or, of a table, in the path that the table names.
    """

    groups: str | None = None

    def check_options(self) -> None:
        """See :class:`~data_modules.data_options.DataOptions`; ``groups`` must be a pattern with one group."""
        super().check_options()
        if self.groups is None or self.groups.endswith(".csv"):
            return
        try:
            parts = re.compile(self.groups).groups
        except re.error as error:
            raise UserError(f"data.groups: {shortened(self.groups)} is no regular expression ({error})") from error
        if parts != 1:
            raise UserError(
                f"data.groups: {shortened(self.groups)} has {parts} parts in parentheses; expected one, as in "
                f"(patient[0-9]+)_, or the name of a .csv file with the columns file and group"
            )

    def grouped_name(self, name: str) -> str:
        """The part of an image's path, relative to its split, in which the pattern of ``groups`` is searched."""
        return name

    def hold_out(self, files: ImageFiles, strata: Indices, split: Split) -> ImageFiles:
        """The training images that remain, or those held out as validation images.

        Args:
            files: All training images.
            strata: Class index of each, (N,); the same share of each class is held out.
            split: ``train`` or ``val``.

        Raises:
            UserError: If an image has no group, or all groups are too large to be held out.
        """
        if self.groups is None:
            kept, held = stratified_split(strata, self.val_fraction, self.split_seed)
        else:
            groups = self._groups_of(files)
            without = [index for index, group in enumerate(groups) if not group]
            if without:
                raise UserError(
                    f"data.groups: {len(without):,} of {len(files):,} training images have no group by "
                    f"{shortened(self.groups)}, first {files.path(without[0])}"
                )
            kept, held = split_by_group(strata, groups, self.val_fraction, self.split_seed)
            if self.val_fraction and not len(held):
                raise UserError(
                    f"data.groups: none of {len(set(groups)):,} groups can be held out as a share of "
                    f"{self.val_fraction} without most images of a class; raise data.val_fraction"
                )
        return files.take(held if split == "val" else kept)

    def load(self, splits: Sequence[Split]) -> dict[Split, Images]:
        """See :class:`~data_modules.image_module.ImageDataModule`; it also says which images are in two splits."""
        found = super().load(splits)
        if "train" in found:
            self._say_leaks({split: images for split, images in found.items() if isinstance(images, ImageFiles)})
        return found

    @rank_zero_only
    def _say_leaks(self, parts: dict[Split, ImageFiles]) -> None:
        if self.groups is None and sum(map(len, parts.values())) > _COMPARED:
            return
        with suppress(UserError):  # a run needs no test images
            parts["test"] = cast(ImageFiles, self.read("test"))
        if self.groups is not None:
            _say_shared({split: set(filter(None, self._groups_of(files))) for split, files in parts.items()})
        if sum(map(len, parts.values())) <= _COMPARED:
            with suppress(OSError):  # decoding the file says what is wrong
                _say_copies(parts)

    def _groups_of(self, files: ImageFiles) -> list[str]:
        """The group of each image; empty where it has none."""
        names, option = files_of(files), self.groups or ""
        if not option.endswith(".csv"):
            found = (re.search(option, self.grouped_name(name)) for name in names)
            return [(match and match.group(1)) or "" for match in found]
        table = _read_groups(Path(option) if Path(option).is_file() else self.root_folder / option)
        below = PurePosixPath(files.folder.relative_to(self.root_folder).as_posix())
        return [table.get(str(below / name), "") for name in names]


def _read_groups(path: Path) -> dict[str, str]:
    """The group of each file of a table."""
    rows = table_rows(path)
    line, header = next(rows, (1, []))
    refuse_doubles(header, f"{path}, line {line}")
    if not {"file", "group"} <= set(header):
        raise UserError(f"{path}, line {line}: the header is {shortened(','.join(header))}; expected file,group")
    groups: dict[str, str] = {}
    for line, row in rows:
        if len(row) != len(header):
            raise UserError(f"{path}, line {line}: {len(row)} cells, expected {len(header)}")
        file, group = str(PurePosixPath(row[header.index("file")])), row[header.index("group")]
        if groups.setdefault(file, group) != group:
            raise UserError(f"{path}, line {line}: {shortened(file)} is in two groups; give it one")
    return groups


def _say_shared(found: Mapping[Split, Collection[str]]) -> None:
    """Say which groups are in two splits."""
    for one, other in combinations(found, 2):
        if shared := sorted({*found[one]} & {*found[other]}):
            say_once(
                f"data.groups: {one} and {other} share {len(shared):,} of {len({*found[one], *found[other]}):,} "
                f"groups, such as {shared[0]!a}; scores of {other} are too high if images of one group are alike"
            )


def _say_copies(parts: Mapping[Split, ImageFiles]) -> None:
    """Say how many images are in two splits: files with the same content."""
    same = [[(split, files.path(index)) for split, files in parts.items() for index in range(len(files))]]
    for key in (os.path.getsize, _end, _digest):  # each is read of those files alone that are equal so far
        same = _refined(same, key)
    if same:
        one, other = same[0][0][1], next(path for split, path in same[0] if split != same[0][0][0])
        say_once(f"data: {len(same):,} files have the content of a file of another split, such as {one} and {other}")


def _refined(same: list[_Places], key: Callable[[Path], Hashable]) -> list[_Places]:
    """Cut lists of files by ``key``, and drop those of one split."""
    refined = []
    for places in same:
        by_key = defaultdict(list)
        for split, path in places:
            by_key[key(path)].append((split, path))
        refined += [equal for equal in by_key.values() if len({split for split, _ in equal}) > 1]
    return refined


def _end(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _SAMPLE))
        return file.read()


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
