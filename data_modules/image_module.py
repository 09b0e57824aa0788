"""``ImageDataModule``: the base of all image data modules."""

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from data_modules.base import Split
from data_modules.images import Images, LabeledImages
from data_modules.samplers import TransformedImages
from data_modules.single import SingleSet
from data_modules.splits import stratified_order
from data_modules.transforms import Augment, eval_transform, train_transform
from lgx.core.batch import Batch, Task
from lgx.errors import UserError


class ImageDataModule(SingleSet[Images]):
    """Base of all image data modules.

    A subclass sets ``info`` and implements :meth:`read`; one whose targets are not the classes of whole images also
    overrides :meth:`transformed`, :meth:`collate` and :meth:`first`. The three splits are disjoint, and validation
    never reads the test split.

    Args:
        root: Folder below which data sets lie, one folder each.
        batch_size: Training examples per process and step.
        eval_batch_size: Evaluation examples per process and step; default 2 x ``batch_size``.
        img_size: Height and width of the images in pixels; default the data set's own.
        in_chans: 1 (grey) or 3 (RGB) channels; default the data set's own.
        augment: Training augmentation: ``none``, ``crop_flip``, or ``randaugment`` (timm's
            ``rand-m9-mstd0.5-inc1`` with random-resized crops).
        num_workers: Loader processes; 0 loads in the training process.
        val_fraction: Share of the training images held out for validation where the set has no official one.
        split_seed: Seed of that split. Not the run's seed, so that runs with different seeds stay comparable.
        seed: Seed of order and augmentation.
        limit_train: Use only the first so many training examples of a class-stratified, seeded draw.
    """

    def __init__(
        self,
        root: str = "data",
        batch_size: int = 128,
        eval_batch_size: int | None = None,
        img_size: int | None = None,
        in_chans: Literal[1, 3] | None = None,
        augment: Augment = "none",
        num_workers: int = 0,
        val_fraction: float = 0.1,
        split_seed: int = 0,
        seed: int = 0,
        limit_train: int | None = None,
    ) -> None:
        super().__init__()
        if batch_size < 1:
            raise UserError(f"data.batch_size: expected at least 1, got {batch_size}")
        if eval_batch_size is not None and eval_batch_size < 1:
            raise UserError(f"data.eval_batch_size: expected at least 1 or null, got {eval_batch_size}")
        if num_workers < 0:
            raise UserError(f"data.num_workers: expected at least 0, got {num_workers}")
        if not 0 < val_fraction < 1:
            raise UserError(f"data.val_fraction: expected a share between 0 and 1, got {val_fraction}")
        if limit_train is not None and limit_train < 1:
            raise UserError(f"data.limit_train: expected at least 1 or null, got {limit_train}")
        self.root = Path(root)
        self.batch_size = batch_size
        self.eval_batch_size = eval_batch_size or 2 * batch_size
        self.img_size = img_size or self.info.img_size
        self.in_chans: int = in_chans or self.info.in_chans
        self.augment: Augment = augment
        self.num_workers = num_workers
        self.val_fraction, self.split_seed, self.seed = val_fraction, split_seed, seed
        self.limit_train = limit_train

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

    def transformed(self, examples: Images, train: bool = False, seed: int | None = None) -> TransformedImages:
        """The examples as tensors.

        Args:
            examples: Examples of one split.
            train: Whether to augment them as ``augment`` says.
            seed: Seed of the augmentation; by default the module's.
        """
        if not train:
            return TransformedImages(examples, eval_transform(self.task))
        seed, random = self.seed if seed is None else seed, self.augment != "none"
        return TransformedImages(examples, train_transform(self.task, self.augment), seed, random=random)

    def collate(self, examples: Sequence[tuple[Tensor, Any]]) -> Batch:
        """Make a batch of transformed examples."""
        images, labels = zip(*examples, strict=True)
        return Batch(torch.stack(images), torch.tensor(labels), self.info.name)

    def first(self, examples: Images, count: int, split: Split) -> Images:
        """The first ``count`` examples of a class-stratified, seeded draw."""
        chosen = stratified_order(examples.labels, self.split_seed)[:count]
        return LabeledImages(examples, np.asarray(examples.labels)[chosen], f"{self.info.name} {split}", chosen)

    @property
    def task(self) -> Task:
        """The task, known before :meth:`setup` (``num_train`` is then the data set's nominal size)."""
        return Task(
            name=self.info.name,
            num_classes=self.num_classes,
            kind=self.info.kind,
            metric=self.info.metric,
            num_train=self.train_size,
            in_chans=self.in_chans,
            img_size=self.img_size,
            mean=_match_channels(self.info.mean, self.in_chans),
            std=_match_channels(self.info.std, self.in_chans),
            class_names=self.info.class_names,
        )


def _match_channels(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    """Grey statistics repeat over RGB; RGB statistics average to grey."""
    if len(values) == channels:
        return values
    return values * channels if len(values) == 1 else (sum(values) / len(values),)
