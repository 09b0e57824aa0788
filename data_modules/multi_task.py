"""Several image sets as one: every batch holds examples of one task."""

from dataclasses import dataclass, field
from typing import Literal

from data_modules.catalog import open_set
from data_modules.image_module import ImageDataModule
from data_modules.options import ImageOptions, copy_options
from data_modules.several import SeveralSets
from data_modules.transforms import Augment
from lgx.errors import UserError


@dataclass(eq=False, repr=False)
class MultiTask(ImageOptions, SeveralSets):
    """Trains on several image sets at once, see :class:`~data_modules.several.SeveralSets`.

    Args:
        tasks: The data sets: names of ``lgx data list``, or folders of your own images
            (train/<class>/<image>, test/...).
        root: Folder that contains the named data sets.
        img_size: Height and width in pixels to which the images of all tasks are resized.
        in_chans: 1 (gray) or 3 (RGB) channels, for all tasks.
        val_fraction: Share of a task's training images held out for validation if it has no official split for it.
        split_seed: Seed of that split and of the limits.
        seed: Seed of draws, order and augmentation.
        limit_train: Use only the first so many training examples of each task's class-stratified, seeded draw.
        augment_of: Augmentation of some of the tasks, by name, instead of ``augment``.
    """

    img_size: int = 224
    in_chans: Literal[1, 3] = 3
    augment_of: dict[str, Augment] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if unknown := sorted(self.augment_of.keys() - self.sets.keys()):
            raise UserError(
                f"data.augment_of: {', '.join(unknown)} is no task of this run, which has {', '.join(self.sets)}"
            )

    def open(self, name: str) -> ImageDataModule:
        """The data module of an image set, with the options of this one."""
        module = open_set(name, self.root)
        copy_options(ImageOptions, self, module)
        module.augment = self.augment_of.get(module.info.name, self.augment)
        return module
