"""What every image data module shares: declared splits, loaders, and the task that methods see."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader

from data_modules.images import LabeledImages, stratified_order
from data_modules.samplers import ResumableLoader, TrainBatchSampler, TransformedImages, UnpaddedEvalSampler
from data_modules.transforms import Augment, eval_transform, train_transform
from lgx.core.batch import Batch, Kind, Task
from lgx.errors import UserError

Split = Literal["train", "val", "test"]


class Images(Protocol):
    """A map-style data set of (PIL image, class index) with the labels at hand.

    A set for segmentation gives the class index of every pixel instead, see :mod:`data_modules.segmentation`.
    """

    @property
    def labels(self) -> Any:
        """Class index of every example, known without decoding an image."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> tuple[Image.Image, int]: ...


@dataclass(frozen=True)
class DatasetInfo:
    """Facts about a data set that are true whether or not it lies on the disk.

    Attributes:
        name: Short lower-case name, also the folder below ``root``.
        num_classes: Number of classes.
        sizes: Number of examples of (train, val, test) as this module splits them; None where not fixed.
        license: License or terms as its publishers state them.
        source: Where it comes from (project page).
        splits: One sentence: which split is which, and where validation examples come from.
        img_size: Default height and width, pixels.
        in_chans: Default number of channels.
        mean: Per-channel mean in [0, 1] for the default number of channels.
        std: Per-channel standard deviation, likewise.
        class_names: Names in index order; empty where the files alone tell.
        kind: What is predicted.
        metric: Name of the main metric.
    """

    name: str
    num_classes: int
    sizes: tuple[int | None, int | None, int | None]
    license: str
    source: str
    splits: str
    img_size: int = 224
    in_chans: int = 3
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)
    class_names: tuple[str, ...] = ()
    kind: Kind = "classification"
    metric: str = "acc"


class ImageDataModule(LightningDataModule):
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

    info: DatasetInfo

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
        self._images: dict[Split, Images] = {}

    # -- what a subclass provides -------------------------------------------------------------------------------

    def read(self, split: Split) -> Images:
        """Return the examples of one split.

        Raises:
            UserError: If the data are not below ``root``; the sentence names the folder and the
                ``lgx data prepare`` command.
        """
        raise NotImplementedError(f"{type(self).__name__}.read")

    def transformed(self, images: Images, train: bool = False, seed: int | None = None) -> TransformedImages:
        """The examples as tensors.

        Args:
            images: Examples of one split.
            train: Whether to augment them as ``augment`` says.
            seed: Seed of the augmentation; default the module's.
        """
        if not train:
            return TransformedImages(images, eval_transform(self.task))
        seed, random = self.seed if seed is None else seed, self.augment != "none"
        return TransformedImages(images, train_transform(self.task, self.augment), seed, random=random)

    def examples(self, split: Split) -> Images:
        """The examples of a split that :meth:`setup` read."""
        return self._images[split]

    def collate(self, examples: Sequence[tuple[Tensor, Any]]) -> Batch:
        """Put transformed examples together."""
        images, labels = zip(*examples, strict=True)
        return Batch(torch.stack(images), torch.tensor(labels), self.info.name)

    def first(self, images: Images, count: int, split: Split) -> Images:
        """The first ``count`` examples of a class-stratified, seeded draw."""
        chosen = stratified_order(images.labels, self.split_seed)[:count]
        return LabeledImages(images, np.asarray(images.labels)[chosen], f"{self.info.name} {split}", chosen)

    # -- what methods see ---------------------------------------------------------------------------------------

    @property
    def num_classes(self) -> int:
        """Number of classes, known before any file is read."""
        return self.info.num_classes

    @property
    def task(self) -> Task:
        """The task, known before :meth:`setup` (``num_train`` is then the data set's nominal size)."""
        mean, std = _match_channels(self.info.mean, self.in_chans), _match_channels(self.info.std, self.in_chans)
        nominal = self.info.sizes[0] or 0
        num_train = len(self._images["train"]) if "train" in self._images else nominal
        return Task(
            name=self.info.name,
            num_classes=self.num_classes,
            kind=self.info.kind,
            metric=self.info.metric,
            num_train=num_train,
            in_chans=self.in_chans,
            img_size=self.img_size,
            mean=mean,
            std=std,
            class_names=self.info.class_names,
        )

    # -- Lightning hooks ----------------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        """Read the splits that ``stage`` needs (``fit``, ``validate``, ``test``, ``predict``)."""
        needed: dict[str, tuple[Split, ...]] = {
            "fit": ("train", "val"),
            "validate": ("val",),
            "test": ("test",),
            "predict": ("test",),
        }
        for split in needed[stage]:
            if split not in self._images:
                images = self.read(split)
                if len(images) == 0:
                    raise UserError(f"data {self.info.name}: the {split} split below {self.root} is empty")
                if split == "train" and self.limit_train is not None:
                    images = self.first(images, self.limit_train, split)
                self._images[split] = images

    def train_dataloader(self) -> ResumableLoader:
        """Shuffled, augmented, resumable in the middle of an epoch."""
        images, (rank, world_size) = self._images["train"], self._process()
        limit = self.trainer.limit_train_batches if self.trainer else None
        full = len(images) // (self.batch_size * world_size)
        if full == 0:
            raise UserError(
                f"data.batch_size: {self.batch_size} x {world_size} processes exceeds the {len(images)} training "
                f"examples of {self.info.name}; use a smaller batch_size"
            )
        sampler = TrainBatchSampler(len(images), self.batch_size, self.seed, rank, world_size, limit)
        return ResumableLoader(self.transformed(images, train=True), batch_sampler=sampler, **self._loader_options())

    def val_dataloader(self) -> DataLoader[Any]:
        """Every validation example once."""
        return self._eval_loader("val")

    def test_dataloader(self) -> DataLoader[Any]:
        """Every test example once."""
        return self._eval_loader("test")

    def predict_dataloader(self) -> DataLoader[Any]:
        """The test images, in order."""
        return self._eval_loader("test")

    @property
    def predict_indices(self) -> Sequence[int]:
        """Index in the test split of each example that :meth:`predict_dataloader` yields on this rank, in order."""
        rank, world_size = self._process()
        return range(rank, len(self._images["test"]), world_size)

    # -- helpers ------------------------------------------------------------------------------------------------

    def _eval_loader(self, split: Split) -> DataLoader[Any]:
        images, (rank, world_size) = self._images[split], self._process()
        if len(images) < world_size:
            raise UserError(
                f"{self.info.name} {split}: {len(images)} examples for {world_size} processes; use fewer processes"
            )
        return DataLoader(
            self.transformed(images),
            batch_size=self.eval_batch_size,
            sampler=UnpaddedEvalSampler(len(images), rank, world_size),
            **self._loader_options(),
        )

    def _process(self) -> tuple[int, int]:
        return process_of(self)

    def _loader_options(self) -> dict[str, Any]:
        return loader_options(self.num_workers, self.collate)


def process_of(module: LightningDataModule) -> tuple[int, int]:
    """Rank and number of processes of a data module's trainer; (0, 1) without one."""
    return (module.trainer.global_rank, module.trainer.world_size) if module.trainer else (0, 1)


def loader_options(num_workers: int, collate: Callable[..., Batch]) -> dict[str, Any]:
    """What every loader is made with, beside its data set and sampler."""
    return {
        "num_workers": num_workers,
        "persistent_workers": num_workers > 0,
        "pin_memory": torch.cuda.is_available(),
        "collate_fn": collate,
    }


def _match_channels(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    """Grey statistics repeat over RGB; RGB statistics average to grey."""
    if len(values) == channels:
        return values
    return values * channels if len(values) == 1 else (sum(values) / len(values),)
