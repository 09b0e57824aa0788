"""``ImageDataModule``: the base of all image data modules."""

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from data_modules.base import Split, process_of
from data_modules.images.class_trees import say_once
from data_modules.images.examples import Images, LabeledImages, content_of, files_of, source_of
from data_modules.images.options import ImageOptions
from data_modules.images.pixel_cache import PixelCache, PixelExamples, identity
from data_modules.images.transforms import CropFlip, PixelTransforms, train_transform
from data_modules.loading.samplers import BalancedBatchSampler, Batching, TrainBatchSampler, TransformedExamples
from data_modules.loading.single_set import AnnouncedExamples, SingleSet
from data_modules.splits import stratified_order
from lgx.core.batch import Batch
from lgx.core.eval_transforms import normalized
from lgx.core.image_size import height_width
from lgx.core.reading import Reading
from lgx.core.task import AGREEMENT, BALANCED, Normalization, Task
from lgx.errors import UserError
from lgx.host.images import ImageReader

_NOT_OF_PIXELS = {
    *("root", "batch_size", "eval_batch_size", "num_workers", "worker_timeout", "seed", "augment", "mean", "std"),
    *("transforms", "cache_gib", "labels", "balanced", "limit_train", "split_seed", "val_fraction"),
}
"""Options that change no pixel of an image; which images a split has, and where they lie, is compared itself."""


class ImageDataModule(ImageOptions, SingleSet[Images]):
    """Base of all image data modules.

    A subclass sets ``info`` and implements :meth:`read`. If its targets are not the classes of whole images, it also
    overrides :meth:`transformed`, :meth:`collate` and :meth:`first`. The three splits are disjoint, and validation
    never reads the test split.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._caches: dict[Split, PixelCache | None] = {}

    _followed_range: tuple[float, ...] = ()

    def check_options(self) -> None:
        """See :class:`ImageOptions`; the user's transforms must keep the size of an image."""
        super().check_options()
        info = getattr(self, "info", None)  # of shards it is read later
        own = self.pixel_transforms()
        if own is not None and info is not None:
            own.check((self.in_chans or info.in_chans, *height_width(self.img_size or info.img_size)))

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
            UserError: If the files are absent or damaged, a split is empty, or ``value_range`` is wrong.
        """
        found = {split: self.refuse_empty(self.read(split), split) for split in splits}
        for source in map(source_of, found.values()):
            if hasattr(source, "reader"):
                source.reader = ImageReader(self.task.in_chans, self.task.value_range)
        if "train" in found:
            self._check_values(source_of(found["train"]))
        return found

    def _check_values(self, source: Any) -> None:
        """Refuse images whose values do not use the range from which they are scaled, and say the range."""
        name, reader = self.info.name, getattr(source, "reader", ImageReader(value_range=self.task.value_range))
        line, wrong = reader.check_values(name, source.sources() if hasattr(source, "sources") else ())
        if not line and not wrong and self.value_range:
            wrong = f"data.value_range: {name} has no image of more than 8 bits, which would be scaled; leave it out"
        if wrong:
            raise UserError(wrong)
        if line:
            say_once(f"data       {line}")

    def transformed(self, examples: Images, train: bool = False, seed: int | None = None) -> TransformedExamples:
        """The examples as tensors.

        Args:
            examples: Examples of one split.
            train: Whether to augment them as ``augment`` says.
            seed: Seed of the augmentation; by default the module's.
        """
        seed, task = self.seed if seed is None else seed, self.task
        augment = self.augment if train else "none"
        own = self.pixel_transforms() if train else None
        if augment in ("resized_crop", "randaugment"):
            return TransformedExamples(examples, train_transform(task, augment, own), seed, random=True)
        crop = None if augment == "none" else CropFlip(task.image_shape[1:], flips=augment == "crop_flip")
        if type(examples) is LabeledImages and (cache := self._cache(examples.source)):
            return PixelExamples(examples, task, crop, seed, cache, examples.indices, own)
        return PixelExamples(examples, task, crop, seed, self._cache(examples), own=own)

    def train_sampler(self, examples: Images, batching: Batching) -> TrainBatchSampler:
        """See :class:`~data_modules.loading.single_set.SingleSet`; ``balanced`` draws all classes equally often."""
        if not self.balanced:
            return super().train_sampler(examples, batching)
        if isinstance(examples, AnnouncedExamples):
            return TrainBatchSampler(len(examples), batching)
        return BalancedBatchSampler(np.asarray(examples.labels), self.class_counts, batching)

    def pixel_transforms(self) -> PixelTransforms | None:
        """The user's transforms of training images; None without any."""
        return PixelTransforms(self.transforms) if self.transforms else None

    def collate(self, examples: Sequence[tuple[Tensor, Any]]) -> Batch:
        """Make a batch of transformed examples; pixels are normalized here, unless a GPU does it."""
        images, labels = zip(*examples, strict=True)
        targets = np.asarray(labels if self.labels else [0] * len(labels), np.int64)
        batch = Batch(torch.stack(images), torch.as_tensor(targets), self.info.name)
        on_gpu = self.trainer is not None and self.trainer.strategy.root_device.type != "cpu"
        return batch if on_gpu else self.normalize(batch)

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        """Normalize pixels on the device of the network, to which a quarter of the bytes was moved."""
        return self.normalize(batch)

    def normalize(self, batch: Batch) -> Batch:
        """The batch with normalized images, where its images are still pixels, uint8 (B, C, H, W)."""
        if batch.inputs.dtype != torch.uint8:
            return batch
        return batch._replace(inputs=normalized(batch.inputs, self.task))

    def first(self, examples: Images, count: int, split: Split) -> Images:
        """The first ``count`` examples of a class-stratified, seeded draw."""
        chosen = stratified_order(examples.labels, self.split_seed)[:count]
        return LabeledImages(examples, np.asarray(examples.labels)[chosen], f"{self.info.name} {split}", chosen)

    def content(self, examples: Images) -> Iterable[bytes]:
        """Labels, and names and contents of files, or some pixels."""
        yield np.asarray(examples.labels, np.int64).tobytes()
        yield from content_of(examples)

    def _cache(self, examples: Any) -> PixelCache | None:
        """The cache of the pixels of a split; None if ``examples`` are not a whole split, or nothing is to be kept."""
        split = next((split for split, known in self._splits.items() if known is examples), None)
        if split is None or isinstance(examples, AnnouncedExamples):
            return None
        if split not in self._caches:
            self._caches[split] = self._open_cache(examples, split)
        return self._caches[split]

    def _open_cache(self, examples: Images, split: Split) -> PixelCache | None:
        task = self.task
        size = len(examples) * math.prod(task.image_shape)
        folder = self.folder if type(self).__module__.startswith("data_modules.") else None
        if size > self.cache_gib * 2**30 or (parts := identity(examples, folder)) is None:
            return None
        options = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _NOT_OF_PIXELS}
        reading = (*task.reading, task.mean if task.resize == "letterbox" else ())
        own = f"{type(self).__module__}.{type(self).__qualname__} {sorted(options.items())} {reading}".encode()
        cache = PixelCache(len(examples), task.image_shape, [own, split.encode(), *parts])
        if self.trainer is not None and (failure := cache.open()) and process_of(self)[0] == 0:
            print(f"data       {self.info.name} {split}: images are decoded in each epoch; {cache.path}: {failure}")
        elif self.trainer is not None and split == "train" and process_of(self)[0] == 0:
            print(
                f"data       {self.info.name}: {len(examples):,} training images are decoded once; their pixels take "
                f"{size / 2**20:,.1f} MiB in {cache.path.parent} (--data.cache_gib)"
            )
        return cache

    def follow_normalization(self, mean: Sequence[float], std: Sequence[float]) -> bool:
        """See :class:`~data_modules.base.TaskDataModule`; gray statistics serve RGB images, and the reverse."""
        self._followed = Normalization(tuple(mean), tuple(std))
        return self.task.normalization == self._followed.for_channels(self.in_chans or self.info.in_chans)

    def follow_reading(self, reading: Reading) -> None:
        """Read files as for a network, whose range of values serves only files of more than 8 bits."""
        self._followed_range, self.resize = reading.value_range, reading.resize

    @property
    def _normalization(self) -> Normalization:
        """Mean and std: the options', else those of a network that is followed, else the data set's."""
        if self.mean is not None and self.std is not None:
            return Normalization(tuple(self.mean), tuple(self.std))
        followed: Normalization | None = getattr(self, "_followed", None)
        return followed or Normalization(self.info.mean, self.info.std)

    @property
    def _metric(self) -> str:
        if not self.labels:
            return AGREEMENT
        return BALANCED if self.balanced and self.info.kind == "classification" else self.info.metric

    @property
    def predict_files(self) -> Sequence[str]:
        """See :class:`~data_modules.base.TaskDataModule`; known where each image is a file of its own."""
        return files_of(self._splits["test"])

    @property
    def is_augmented(self) -> bool:
        """See :class:`~data_modules.base.TaskDataModule`."""
        return self.augment != "none" or bool(self.transforms)

    @property
    def num_classes(self) -> int:
        """Number of classes, known before any file is read; 0 without labels."""
        return super().num_classes if self.labels else 0

    @property
    def task(self) -> Task:
        """The task, known before :meth:`setup` (until then ``num_train`` is the published size)."""
        in_chans = self.in_chans or self.info.in_chans
        return Task(
            name=self.info.name,
            num_classes=self.num_classes,
            kind=self.info.kind if self.labels else "classification",
            metric=self._metric,
            num_train=self.train_size,
            in_chans=in_chans,
            img_size=self.img_size or self.info.img_size,
            class_names=self.info.class_names if self.labels else (),
            **self._normalization.for_channels(in_chans)._asdict(),
            value_range=tuple(self.value_range or self._followed_range),
            resize=self.resize,
        )
