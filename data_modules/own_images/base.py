"""Base of data modules for a user's image files: splits by group, and files that cannot be read."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from data_modules.base import DatasetInfo, Split
from data_modules.images.class_trees import TREE_NAMES, tree_split
from data_modules.images.examples import ImageFiles, Images, files_of
from data_modules.images.module import ImageDataModule
from data_modules.splits import Indices, split_by_group, stratified_split
from lgx.core.schema import shortened
from lgx.errors import UserError

_CHECKED = 20_000
"""Largest number of images that are checked."""
_NAMED = 50
"""Largest number of damaged files that a message names."""


@dataclass(eq=False, repr=False)
class OwnImages(ImageDataModule):
    """Base of the data modules that read a user's own image files.

    Args:
        groups: Keep images of one group (patient, place) in one split when validation images are held out. The value is
            a regular expression with one part in parentheses, e.g. ``(patient[0-9]+)_``. It is searched in each image's
            path below the folder of its split, or in the path in a label table.
        name: Name of the task; default: the name of the folder.
        img_size: Side in pixels, or ``[height, width]``; default: the size of the run's network, or 224.
    """

    groups: str | None = None
    name: str | None = None
    sized_by_network: ClassVar = True

    @property
    def present_root(self) -> Path:
        """``root`` as a path.

        Raises:
            UserError: If it is not a folder.
        """
        if not self.root_folder.is_dir():
            raise UserError(f"data.root: {self.root} does not exist, or is a file; give the folder of your images")
        return self.root_folder

    def describe(self, num_classes: int, splits: str, **facts: Any) -> DatasetInfo:
        """Facts of the user's set."""
        name = self.name or self.root_folder.resolve().name
        return DatasetInfo(name, num_classes, (None,) * 3, "the user's own", str(self.root_folder), splits, **facts)

    def check_options(self) -> None:
        """See :class:`~data_modules.loading.module.DataOptions`; ``groups`` must be a pattern with one group."""
        super().check_options()
        if self.groups is None:
            return
        try:
            parts = re.compile(self.groups).groups
        except re.error:
            parts = 0
        if parts != 1:
            raise UserError(
                f"data.groups: expected a regular expression with one part in parentheses as in (patient[0-9]+)_, got "
                f"{shortened(self.groups)}"
            )

    def tree(self, split: Split) -> Path | None:
        """The folder of a split below ``root``, if there is one."""
        return tree_split(self.root_folder, TREE_NAMES[split])

    @property
    def has_test(self) -> bool:
        """See :class:`~data_modules.base.TaskDataModule`."""
        return self.tree("test") is not None

    def part(self, files: ImageFiles, strata: Indices, split: Split, has_val: bool) -> ImageFiles:
        """The images of a split; without an own one for val these are a share of each stratum of the training images.

        Raises:
            UserError: If an image has no group, or no group can be held out.
        """
        if split == "test" or has_val:
            return files
        if self.groups is None:
            kept, held = stratified_split(strata, self.val_fraction, self.split_seed)
        else:
            groups = self._groups_of(files)
            kept, held = split_by_group(strata, groups, self.val_fraction, self.split_seed)
            if self.val_fraction and not len(held):
                raise UserError(
                    f"data.groups: none of {len(set(groups)):,} groups can be held out, because a class would have no "
                    "training image; give smaller groups"
                )
        return files.take(held if split == "val" else kept)

    def load(self, splits: Sequence[Split]) -> dict[Split, Images]:
        """See :class:`~data_modules.images.module.ImageDataModule`; refuses files that cannot be read."""
        sets = super().load(splits)
        files = [images for images in sets.values() if isinstance(images, ImageFiles)]
        if sum(map(len, files)) <= _CHECKED:
            _refuse_damaged(files)
        return sets

    def _groups_of(self, files: ImageFiles) -> list[str]:
        """The group of each image."""
        option = self.groups or ""
        matches = (re.search(option, name) for name in files_of(files))
        groups = [(match and match.group(1)) or "" for match in matches]
        without = [index for index, group in enumerate(groups) if not group]
        if without:
            raise UserError(
                f"data.groups: {len(without):,} of {len(files):,} images have no group by {shortened(option)}, first "
                f"{files.path(without[0])}"
            )
        return groups


def _refuse_damaged(parts: Iterable[ImageFiles]) -> None:
    """Refuse files that cannot be read, all in one message, before training."""
    read = [(files.reader, files.path(index)) for files in parts for index in range(len(files))]
    damaged = [f"{path} ({reason})" for reader, path in read if (reason := reader.damage(path))]
    if damaged:
        more = f" and {len(damaged) - _NAMED:,} more" if len(damaged) > _NAMED else ""
        raise UserError(
            f"data: {len(damaged):,} of {len(read):,} images cannot be read: {', '.join(damaged[:_NAMED])}{more}; "
            f"restore or remove them"
        )
