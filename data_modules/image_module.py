"""``ImageDataModule``: the base of all image data modules."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from data_modules.base import Split
from data_modules.images import Images, LabeledImages
from data_modules.options import ImageOptions
from data_modules.samplers import TransformedExamples
from data_modules.single import SingleSet
from data_modules.splits import stratified_order
from data_modules.transforms import eval_transform, train_transform
from lgx.core.batch import Batch
from lgx.core.task import AGREEMENT, Task


class ImageDataModule(ImageOptions, SingleSet[Images]):
    """Base of all image data modules.

    A subclass sets ``info`` and implements :meth:`read`. If its targets are not the classes of whole images, it also
    overrides :meth:`transformed`, :meth:`collate` and :meth:`first`. The three splits are disjoint, and validation
    never reads the test split.
    """

    # -- what a subclass provides -------------------------------------------------------------------------------

    @abstractmethod
    def read(self, split: Split) -> Images:
        """Return the examples of one split.

        Raises:
            UserError: If the files are not below ``root``; the sentence names the folder and the
                ``lgx data prepare`` command.
        """

    def load(self, splits: Sequence[Split]) -> dict[Split, Images]:
        """Read whole splits.

        Raises:
            UserError: If the files are absent or damaged, or a split is empty.
        """
        return {split: self.refuse_empty(self.read(split), split) for split in splits}

    def transformed(self, examples: Images, train: bool = False, seed: int | None = None) -> TransformedExamples:
        """The examples as tensors.

        Args:
            examples: Examples of one split.
            train: Whether to augment them as ``augment`` says.
            seed: Seed of the augmentation; by default the module's.
        """
        if not train:
            return TransformedExamples(examples, eval_transform(self.task))
        seed, random = self.seed if seed is None else seed, self.augment != "none"
        return TransformedExamples(examples, train_transform(self.task, self.augment), seed, random=random)

    def collate(self, examples: Sequence[tuple[Tensor, Any]]) -> Batch:
        """Make a batch of transformed examples."""
        images, labels = zip(*examples, strict=True)
        return Batch(torch.stack(images), torch.tensor(labels), self.info.name)

    def first(self, examples: Images, count: int, split: Split) -> Images:
        """The first ``count`` examples of a class-stratified, seeded draw."""
        chosen = stratified_order(examples.labels, self.split_seed)[:count]
        return LabeledImages(examples, np.asarray(examples.labels)[chosen], f"{self.info.name} {split}", chosen)

    def follow_normalization(self, mean: Sequence[float], std: Sequence[float]) -> bool:
        """See :class:`~data_modules.base.TaskDataModule`; gray statistics serve RGB images, and the reverse."""
        self._followed = tuple(mean), tuple(std)
        channels = self.in_chans or self.info.in_chans
        wanted = (match_channels(tuple(mean), channels), match_channels(tuple(std), channels))
        task = self.task
        return (task.mean, task.std) == wanted

    @property
    def _normalization(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and std: the options', else those of a network that is followed, else the data set's."""
        if self.mean is not None and self.std is not None:
            return tuple(self.mean), tuple(self.std)
        followed: tuple[tuple[float, ...], tuple[float, ...]] | None = getattr(self, "_followed", None)
        return followed or (self.info.mean, self.info.std)

    @property
    def num_classes(self) -> int:
        """Number of classes, known before any file is read; 0 without labels."""
        return super().num_classes if self.labels else 0

    @property
    def task(self) -> Task:
        """The task, known before :meth:`setup` (until then ``num_train`` is the published size)."""
        in_chans, (mean, std) = self.in_chans or self.info.in_chans, self._normalization
        return Task(
            name=self.info.name,
            num_classes=self.num_classes,
            kind=self.info.kind if self.labels else "classification",
            metric=self.info.metric if self.labels else AGREEMENT,
            num_train=self.train_size,
            in_chans=in_chans,
            img_size=self.img_size or self.info.img_size,
            mean=match_channels(mean, in_chans),
            std=match_channels(std, in_chans),
            class_names=self.info.class_names if self.labels else (),
        )


def match_channels(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    """Repeat gray statistics for RGB; average RGB statistics for gray.

    Args:
        values: A statistic of each channel.
        channels: Number of channels, 1 or 3.
    """
    if len(values) == channels:
        return values
    return values * channels if len(values) == 1 else (sum(values) / len(values),)
