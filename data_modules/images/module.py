"""``ImageDataModule``: the base of all image data modules."""

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms import v2

from data_modules.base import Split, process_of
from data_modules.images.class_trees import say_once
from data_modules.images.examples import Images, LabeledImages, content_of, files_of, source_of
from data_modules.images.pixel_cache import PixelCache, PixelExamples, identity
from data_modules.images.transforms import Augment, CropFlip, PixelTransforms, train_transform
from data_modules.loading.module import DataOptions, SingleSet, check_least
from data_modules.loading.samplers import BalancedBatchSampler, Batching, TrainBatchSampler, TransformedExamples
from data_modules.splits import stratified_order
from lgx.core.batch import Batch
from lgx.core.eval_transforms import normalized
from lgx.core.seed import seeded_rng
from lgx.core.task import (
    AGREEMENT,
    BALANCED,
    IMAGE_SIZE,
    ImageSize,
    Normalization,
    Reading,
    ResizeMode,
    Task,
    height_width,
)
from lgx.errors import UserError
from lgx.host.images import MOST_CHANNELS, ImageReader

_NOT_OF_PIXELS = {
    *("root", "batch_size", "eval_batch_size", "num_workers", "worker_timeout", "seed", "augment", "mean", "std"),
    *("transforms", "cache_gib", "labels", "balanced", "limit_train", "split_seed", "val_fraction"),
}
"""Options that do not change pixels; the images of a split and their paths are compared separately."""


@dataclass(eq=False, repr=False)
class ImageOptions(DataOptions):
    """Options of image sets.

    Args:
        img_size: Side of the images in pixels, or ``[height, width]``. Default: the data set's size; without
            ``model.arch`` the size of the network's source.
        in_chans: 1 (gray) or 3 (RGB) channels; default: the data set's. Your own class folders may have 2 to 16
            channels in .npy or TIFF files.
        value_range: Values [LOW, HIGH] of image files with more than 8 bits that become 0 and 255. Default: the whole
            range of unsigned 16 bits; 0 and 1 for floating-point numbers. Required if files use less than half of this
            range.
        resize: Way of resizing: ``crop`` covers the size and crops at the center, ``squash`` ignores proportions,
            ``letterbox`` fits the whole image and fills with the mean color.
        augment: Training augmentation: ``none``; ``crop`` (random crops of the padded image) or ``crop_flip`` (the same
            with flips) for small images; ``resized_crop`` (crops of 8 % to all of the area, with flips) or
            ``randaugment`` (the same with timm's ``rand-m9-mstd0.5-inc1``) for large images. If a mirrored image has
            another class (digits, signs), use ``none`` or ``crop``.
        transforms: Further transforms of each training image, after ``augment``: a list of torchvision's
            ``transforms.v2``, e.g. ``[{class_path: RandomRotation, init_args: {degrees: 15}}]``. Input and output are
            uint8 pixels of the task's size. Your own subclasses of ``transforms.v2.Transform`` are named by their
            class paths.
        mean: Mean of each channel for normalization, in units of pixel value / 255. Default: the mean of the network's
            start if known, else the data set's.
        std: Standard deviation of each channel, in the same units; give both or neither.
        cache_gib: Limit in GiB for the pixels of a split. Below it, images are decoded once into a file that processes
            and runs share, in ``$LGX_CACHE`` or ``~/.cache/lgx``. 0 decodes them in each epoch; ``resized_crop``,
            ``randaugment`` and masks always do so.
        labels: ``false`` leaves out the labels, for methods that learn from an ancestor only.
        balanced: Draw the training images of an epoch with replacement, all classes equally often. Validation then
            follows balanced accuracy.
    """

    img_size: ImageSize | None = None
    in_chans: int | None = None
    value_range: tuple[float, float] | None = None
    resize: ResizeMode = "crop"
    augment: Augment = "none"
    transforms: list[v2.Transform] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    cache_gib: float = 2.0
    labels: bool = True
    balanced: bool = False
    any_channels: ClassVar[bool] = False
    """Whether ``in_chans`` may be other than 1 and 3."""
    sized_by_network: ClassVar[bool] = False
    """Whether a run uses the image size of its network, because the set has no own size."""

    @property
    def has_channels(self) -> bool:
        """Whether the images are neither gray nor RGB."""
        return self.in_chans not in (None, 1, 3)

    def check_options(self) -> None:
        """See :class:`DataOptions`."""
        super().check_options()
        check_least(self, {"cache_gib": 0})
        if self.img_size is not None and not IMAGE_SIZE.holds(self.img_size):
            raise UserError(f"data.img_size: expected {IMAGE_SIZE.words}, got {self.img_size}")
        if self.has_channels and not (self.any_channels and 1 < (self.in_chans or 0) <= MOST_CHANNELS):
            others = f", or up to {MOST_CHANNELS} of .npy or TIFF files" if self.any_channels else ""
            raise UserError(f"data.in_chans: expected 1 (gray) or 3 (RGB){others}, got {self.in_chans}")
        if self.has_channels and self.augment not in ("none", "crop", "crop_flip"):
            raise UserError(f"data.augment: {self.augment} is for gray and RGB images; use crop or crop_flip")
        low, high = self.value_range or (0, 1)
        if not -math.inf < low < high < math.inf:
            raise UserError(f"data.value_range: expected two numbers, the smaller one first, got {low:g}, {high:g}")
        if (self.mean is None) != (self.std is None):
            raise UserError("data.mean and data.std: give both or neither")
        for option, values, least in (("mean", self.mean, -1.0), ("std", self.std, 0.0)):
            wrong = [value for value in values or () if not least < value < 5]  # 5: a mistake of factor 255 is larger
            if wrong or (values is not None and len(values) not in (1, 3, self.in_chans)):
                several = f"1, 3 or {self.in_chans}" if self.has_channels else "1 or 3"
                raise UserError(
                    f"data.{option}: expected {several} numbers in units of pixel value / 255, got "
                    f"{', '.join(map(str, values or ()))}"
                )


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
        """See :class:`ImageOptions`; the user's transforms must keep the image size."""
        super().check_options()
        info = getattr(self, "info", None)  # shards are read later
        transforms = self.pixel_transforms()
        if transforms is not None and info is not None:
            shape = (self.in_chans or info.in_chans, *height_width(self.img_size or info.img_size))
            with seeded_rng(0):  # finds most mistakes before any data is read
                transforms(torch.randint(0, 256, shape, dtype=torch.uint8))

    @abstractmethod
    def read(self, split: Split) -> Images:
        """Return the examples of one split.

        Raises:
            UserError: If the files are not below ``root``; the sentence names the folder and the
                ``lgx data prepare`` command.
        """

    def load(self, splits: Sequence[Split]) -> dict[Split, Images]:
        """Read whole splits; ``value_range`` must fit the training images."""
        sets = {split: self.refuse_empty(self.read(split), split) for split in splits}
        for source in map(source_of, sets.values()):
            if hasattr(source, "reader"):
                source.reader = ImageReader(self.task.in_chans, self.task.value_range)
        if "train" in sets:
            self._check_values(source_of(sets["train"]))
        return sets

    def _check_values(self, source: Any) -> None:
        """Refuse images whose values do not fit the range of their scaling; report the range."""
        name = self.info.name
        reader = getattr(source, "reader", ImageReader(value_range=self.task.value_range))
        line, wrong = reader.check_values(name, source.sources() if hasattr(source, "sources") else ())
        if not line and not wrong and self.value_range:
            wrong = f"data.value_range: applies to images of more than 8 bits, but {name} has none; leave it out"
        if wrong:
            raise UserError(wrong)
        if line:
            say_once(f"data       {line}")

    def transformed(self, examples: Images, train: bool = False, seed: int | None = None) -> TransformedExamples:
        """See :class:`~data_modules.loading.module.SingleSet`."""
        seed = self.seed if seed is None else seed
        task = self.task
        augment = self.augment if train else "none"
        transforms = self.pixel_transforms() if train else None
        if augment in ("resized_crop", "randaugment"):
            return TransformedExamples(examples, train_transform(task, augment, transforms), seed, random=True)
        crop = None if augment == "none" else CropFlip(task.image_shape[1:], flips=augment == "crop_flip")
        if type(examples) is LabeledImages and (cache := self._cache(examples.source)):
            return PixelExamples(examples, task, crop, seed, cache, examples.indices, transforms)
        return PixelExamples(examples, task, crop, seed, self._cache(examples), custom=transforms)

    def train_sampler(self, examples: Images, batching: Batching) -> TrainBatchSampler:
        """See :class:`~data_modules.loading.module.SingleSet`; ``balanced`` draws all classes equally often."""
        if not self.balanced:
            return super().train_sampler(examples, batching)
        return BalancedBatchSampler(np.asarray(examples.labels), self.class_counts, batching)

    def pixel_transforms(self) -> PixelTransforms | None:
        """The user's transforms of training images; None without any."""
        return PixelTransforms(self.transforms) if self.transforms else None

    def collate(self, examples: Sequence[tuple[Tensor, Any]]) -> Batch:
        """Make a batch of transformed examples; normalize pixels here, unless a GPU does it."""
        images, labels = zip(*examples, strict=True)
        targets = np.asarray(labels if self.labels else [0] * len(labels), np.int64)
        batch = Batch(torch.stack(images), torch.as_tensor(targets), self.info.name)
        on_gpu = self.trainer is not None and self.trainer.strategy.root_device.type != "cpu"
        return batch if on_gpu else self.on_after_batch_transfer(batch, 0)

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        """Normalize images that are still pixels, on the network's device: only a quarter of the bytes is moved."""
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
        """The cache of the pixels of a split; None if ``examples`` are not a whole split, or without a cache."""
        split = next((split for split, loaded in self._splits.items() if loaded is examples), None)
        if split is None:
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
        described = f"{type(self).__module__}.{type(self).__qualname__} {sorted(options.items())} {reading}".encode()
        cache = PixelCache(len(examples), task.image_shape, [described, split.encode(), *parts])
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
        """Read files as for a network; its range of values applies only to files of more than 8 bits."""
        self._followed_range, self.resize = reading.value_range, reading.resize

    @property
    def _normalization(self) -> Normalization:
        """Mean and std: from the options, else from a network that is followed, else the data set's."""
        if self.mean is not None and self.std is not None:
            return Normalization(tuple(self.mean), tuple(self.std))
        followed: Normalization | None = getattr(self, "_followed", None)
        return followed or Normalization(self.info.mean, self.info.std)

    @property
    def predict_files(self) -> Sequence[str]:
        """See :class:`~data_modules.base.TaskDataModule`; known if each image is a separate file."""
        return files_of(self._splits["test"])

    @property
    def num_classes(self) -> int:
        """Number of classes, known before any file is read; 0 without labels."""
        return super().num_classes if self.labels else 0

    @property
    def task(self) -> Task:
        """The task, known before :meth:`setup` (until then ``num_train`` is the published size)."""
        in_chans = self.in_chans or self.info.in_chans
        is_balanced = self.balanced and self.info.kind == "classification"
        metric = BALANCED if is_balanced else self.info.metric
        return Task(
            name=self.info.name,
            num_classes=self.num_classes,
            kind=self.info.kind if self.labels else "classification",
            metric=metric if self.labels else AGREEMENT,
            num_train=self.train_size,
            in_chans=in_chans,
            img_size=self.img_size or self.info.img_size,
            class_names=self.info.class_names if self.labels else (),
            **self._normalization.for_channels(in_chans)._asdict(),
            value_range=tuple(self.value_range or self._followed_range),
            resize=self.resize,
        )
