"""``DataOptions``: the options that all data modules share; ``SingleSet``: the base of the modules of one data set.

Options are dataclasses, from which the data modules inherit their constructors. An option is an unchanged attribute of
the same name. A value that depends on several options is a property or part of the task.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader

from data_modules.base import WORKER_TIMEOUT, DatasetInfo, Split, TaskDataModule, TrainLoader, process_of
from data_modules.loading.fingerprint import fingerprint, fingerprint_of_names
from data_modules.loading.loaders import check_share, eval_loader, train_batching, train_loader
from data_modules.loading.samplers import Batching, TrainBatchSampler, TransformedExamples, unpadded_share
from lgx.core.batch import Batch
from lgx.errors import UserError


@dataclass(eq=False, repr=False)
class DataOptions:
    """Options of every data module.

    Args:
        root: Folder that contains the data sets, one folder each.
        batch_size: Training examples per process and step; evaluation takes twice as many.
        num_workers: Loader processes; 0 loads in the training process.
        worker_timeout: Seconds to wait for a batch of the loader processes before the run ends; 0: no limit.
        val_fraction: Share of the training examples held out for validation, if the set has no official validation
            split. 0 trains on all examples, without validation.
        split_seed: Seed of this split, independent of the run's seed, so that runs are comparable.
        seed: Seed of order and augmentation.
        limit_train: Largest number of training examples, from a class-stratified, seeded draw.

    Raises:
        UserError: If an option is out of range.
    """

    root: str = "data"
    batch_size: int = 128
    num_workers: int = 0
    worker_timeout: int = WORKER_TIMEOUT
    val_fraction: float = 0.1
    split_seed: int = 0
    seed: int = 0
    limit_train: int | None = None

    def __post_init__(self) -> None:
        self.check_options()

    def check_options(self) -> None:
        """Refuse options that are out of range, and a ``root`` at a URL."""
        _ = self.root_folder
        check_least(self, {"batch_size": 1, "num_workers": 0, "worker_timeout": 0, "limit_train": 1})
        if not 0 <= self.val_fraction < 1:
            raise UserError(f"data.val_fraction: expected a share of at least 0 and below 1, got {self.val_fraction}")

    @property
    def root_folder(self) -> Path:
        """``root`` as a path.

        Raises:
            UserError: If it is a URL.
        """
        if "://" in self.root:
            raise UserError("data.root: is a URL, and only --data ShardedData reads from one; give a local folder")
        return Path(self.root)

    @property
    def evaluation_batch(self) -> int:
        """Evaluation examples per process and step: without gradients twice as many fit."""
        return 2 * self.batch_size


def check_least(options: object, least: Mapping[str, int]) -> None:
    """Refuse options below their smallest values; None is allowed if it is the default."""
    for option, smallest in least.items():
        value = getattr(options, option)
        if value is not None and value < smallest:
            optional = " or null" if getattr(type(options), option) is None else ""
            raise UserError(f"data.{option}: expected at least {smallest}{optional}, got {value}")


def copy_options(kind: type[DataOptions], source: DataOptions, target: DataOptions) -> None:
    """Give ``target`` all options of ``kind`` that ``source`` has, except ``root``; refuse those out of range."""
    for option in fields(kind):
        if option.name != "root":
            setattr(target, option.name, getattr(source, option.name))
    target.check_options()


ExamplesT = TypeVar("ExamplesT", bound=Sized)

_SPLITS: dict[str, tuple[Split, ...]] = {
    "fit": ("train", "val"),
    "validate": ("val",),
    "test": ("test",),
    "predict": ("test",),
}


class SingleSet(DataOptions, TaskDataModule, Generic[ExamplesT]):
    """Base of the data modules of one data set with the splits train, val and test.

    A subclass sets ``info`` and implements :meth:`load`, :meth:`transformed`, :meth:`collate` and :meth:`first`.

    Attributes:
        info: Facts of the set; its sizes hold for the default ``val_fraction``.
    """

    info: DatasetInfo

    def __post_init__(self) -> None:
        super().__post_init__()
        TaskDataModule.__init__(self)
        self._splits: dict[Split, ExamplesT] = {}

    @abstractmethod
    def load(self, splits: Sequence[Split]) -> dict[Split, ExamplesT]:
        """Read whole splits; the result may contain more splits than requested.

        Raises:
            UserError: If the files are absent or damaged, or a split is empty.
        """

    @abstractmethod
    def transformed(self, examples: ExamplesT, train: bool = False, seed: int | None = None) -> TransformedExamples:
        """The examples of a split as tensors, for training augmented with ``seed``, by default the module's."""

    @abstractmethod
    def collate(self, examples: Sequence[tuple[Tensor, Any]]) -> Batch:
        """Make a batch of transformed examples."""

    @abstractmethod
    def first(self, examples: ExamplesT, count: int, split: Split) -> ExamplesT:
        """The first ``count`` examples of a class-stratified, seeded draw."""

    @abstractmethod
    def content(self, examples: ExamplesT) -> Iterable[bytes]:
        """The identity of a split's examples, which may ignore details."""

    def train_sampler(self, examples: ExamplesT, batching: Batching) -> TrainBatchSampler:
        """The order of the training batches."""
        return TrainBatchSampler(len(examples), batching)

    def eval_sampler(self, examples: ExamplesT, rank: int, world_size: int, in_order: bool) -> Sequence[int]:
        """The order in which this process evaluates its examples, each of them once.

        With ``in_order`` it is that of the split, because predictions are numbered by it.
        """
        return unpadded_share(len(examples), rank, world_size)

    @property
    def num_classes(self) -> int:
        """Number of classes, known before any file is read."""
        return self.info.num_classes

    @property
    def train_size(self) -> int:
        """Number of training examples: exact after ``setup("fit")``, before it the published number or 0."""
        return len(self._splits["train"]) if "train" in self._splits else self.info.sizes[0] or 0

    @property
    def folder(self) -> Path:
        """Folder of the set's files."""
        return self.root_folder / self.info.name

    def examples(self, split: Split) -> ExamplesT:
        """The examples of a split that :meth:`setup` read."""
        return self._splits[split]

    def fingerprint(self) -> dict[str, str]:
        """The identity of classes and splits that :meth:`setup` has read, by name."""
        of_splits = {f"{split} split": fingerprint(len(e), self.content(e)) for split, e in self._splits.items()}
        return {"class names": fingerprint_of_names(self.info.class_names), **of_splits}

    @property
    def has_class_counts(self) -> bool:
        """See :class:`~data_modules.base.TaskDataModule`."""
        return self.task.kind in ("classification", "text") and self.num_classes > 0

    @property
    def class_counts(self) -> Sequence[int]:
        """See :class:`~data_modules.base.TaskDataModule`."""
        if self.task.kind not in ("classification", "text") or not self.num_classes:
            raise UserError(f"data: {self.info.name} cannot count classes: examples do not have one class each")
        counts: list[int] = np.bincount(cast(Any, self._splits["train"]).labels, minlength=self.num_classes).tolist()
        return counts

    @property
    def predict_indices(self) -> Sequence[int]:
        """Index in the test split of each example that :meth:`predict_dataloader` yields on this rank, in order."""
        return unpadded_share(len(self._splits["test"]), *process_of(self))

    def setup(self, stage: str) -> None:
        """Read the splits that ``stage`` needs (``fit``, ``validate``, ``test``, ``predict``)."""
        wanted = [split for split in _SPLITS[stage] if split != "val" or self.has_validation or stage != "fit"]
        missing = [split for split in wanted if split not in self._splits]
        if not missing:
            return
        loaded = self.load(missing)
        if "train" in loaded and self.limit_train is not None:
            loaded["train"] = self.first(loaded["train"], self.limit_train, "train")
        self._splits |= loaded

    def train_dataloader(self) -> TrainLoader:
        """Shuffled batches; the loader can resume in the middle of an epoch.

        Raises:
            UserError: If the examples do not fill one batch on every process.
        """
        examples = self._splits["train"]
        sampler = self.train_sampler(examples, train_batching(self, len(examples), self.seed))
        return train_loader(self, self.transformed(examples, train=True), self.seed, self.collate, sampler)

    def val_dataloader(self) -> DataLoader[Any]:
        """Every validation example once."""
        return self.eval_dataloader("val")

    def test_dataloader(self) -> DataLoader[Any]:
        """Every test example once."""
        return self.eval_dataloader("test")

    def predict_dataloader(self) -> DataLoader[Any]:
        """Every test example once, in the order of the split."""
        return self.eval_dataloader("test", in_order=True)

    def reference_dataloader(self, limit: int, is_shared: bool = True) -> DataLoader[Any]:
        """Training examples once, without augmentation; of more than ``limit`` a class-stratified, seeded draw."""
        examples = self._splits["train"]
        size = len(examples)
        if size > limit:
            if process_of(self)[0] == 0:
                print(f"data       {limit:,} of the {size:,} training examples of {self.info.name}, class by class")
            examples = self.first(examples, limit, "train")
        return self._eval_dataloader(examples, "train", in_order=False, is_shared=is_shared)

    def eval_dataloader(self, split: Split, in_order: bool = False) -> DataLoader[Any]:
        """Every example of a split once, if ``in_order`` in the order of the split.

        Raises:
            UserError: If there are fewer examples than processes.
        """
        return self._eval_dataloader(self._splits[split], split, in_order)

    def _eval_dataloader(
        self, examples: ExamplesT, split: Split, in_order: bool, is_shared: bool = True
    ) -> DataLoader[Any]:
        share = check_share(self, len(examples), f"{self.info.name} {split}") if is_shared else (0, 1)
        sampler = self.eval_sampler(examples, *share, in_order)
        return eval_loader(self, self.transformed(examples), self.collate, sampler, self.evaluation_batch)

    def nominal_train_size(self) -> int | None:
        """Published number of training examples; None if it depends on the files or on another ``val_fraction``."""
        return self.info.sizes[0] if self.val_fraction == type(self).val_fraction else None

    def count_train(self) -> int:
        """See :class:`~data_modules.base.TaskDataModule`."""
        return len(self.load(("train", "val") if self.has_validation else ("train",))["train"])

    def epoch_batches(self, sizes: Sequence[int]) -> int:
        """See :class:`~data_modules.base.TaskDataModule`; an incomplete last batch is left out."""
        return TrainBatchSampler(sum(sizes), train_batching(self, sum(sizes), self.seed)).epoch_length

    def refuse_empty(self, examples: ExamplesT, split: Split) -> ExamplesT:
        """Return the examples; refuse an empty split."""
        if len(examples) == 0:
            why = "; too few examples per class to hold some out; --data.val_fraction 0 does not validate"
            remedy = why if split == "val" else ""
            raise UserError(f"data {self.info.name}: the {split} split below {self.root} is empty{remedy}")
        return examples
