"""``SingleSet``: the base of the data modules of one data set."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence, Sized
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from data_modules.base import DatasetInfo, Split, TaskDataModule, TrainLoader, process_of
from data_modules.loading.fingerprint import fingerprint, fingerprint_of_names
from data_modules.loading.loaders import check_share, eval_loader, train_batching, train_loader
from data_modules.loading.options import VAL_FRACTION, DataOptions
from data_modules.loading.samplers import Batching, TrainBatchSampler, TransformedExamples, UnpaddedEvalSampler
from lgx.core.batch import Batch
from lgx.errors import UserError

ExamplesT = TypeVar("ExamplesT", bound=Sized)

_SPLITS: dict[str, tuple[Split, ...]] = {
    "fit": ("train", "val"),
    "validate": ("val",),
    "test": ("test",),
    "predict": ("test",),
}


class AnnouncedExamples:
    """Training examples of which only the number is known.

    Args:
        size: Number of examples.
    """

    def __init__(self, size: int) -> None:
        self.labels = self.lengths = np.zeros(size, np.int64)

    def __len__(self) -> int:
        return len(self.labels)


class SingleSet(DataOptions, TaskDataModule, Generic[ExamplesT]):
    """Base of the data modules of one data set with the splits train, val and test.

    A subclass sets ``info`` and implements :meth:`load`, :meth:`transformed`, :meth:`collate` and :meth:`first`.

    Attributes:
        info: Facts of the set.
        nominal_val_fraction: The ``val_fraction`` for which ``info.sizes`` holds.
    """

    info: DatasetInfo
    nominal_val_fraction: ClassVar[float] = VAL_FRACTION

    def __post_init__(self) -> None:
        super().__post_init__()
        TaskDataModule.__init__(self)
        self._splits: dict[Split, ExamplesT] = {}

    @abstractmethod
    def load(self, splits: Sequence[Split]) -> dict[Split, ExamplesT]:
        """Read whole splits; the result may hold more of them than asked for.

        Raises:
            UserError: If the files are absent or damaged, or a split is empty.
        """

    @abstractmethod
    def transformed(self, examples: ExamplesT, train: bool = False, seed: int | None = None) -> TransformedExamples:
        """The examples as tensors.

        Args:
            examples: Examples of one split.
            train: Whether to augment them.
            seed: Seed of the augmentation; by default the module's.
        """

    @abstractmethod
    def collate(self, examples: Sequence[tuple[Tensor, Any]]) -> Batch:
        """Make a batch of transformed examples."""

    @abstractmethod
    def first(self, examples: ExamplesT, count: int, split: Split) -> ExamplesT:
        """The first ``count`` examples of a class-stratified, seeded draw."""

    @abstractmethod
    def content(self, examples: ExamplesT) -> Iterable[bytes]:
        """What identifies the examples of a split: two splits of the same content may differ in what it leaves out."""

    def train_sampler(self, examples: ExamplesT, batching: Batching) -> TrainBatchSampler:
        """The order of the training batches.

        Args:
            examples: Training examples.
            batching: Size, seed and processes of the batches.
        """
        return TrainBatchSampler(len(examples), batching)

    def eval_sampler(
        self, examples: ExamplesT, rank: int, world_size: int, in_order: bool
    ) -> Sampler[int] | Sequence[int]:
        """The order of the examples in evaluation: every example once.

        Args:
            examples: Examples of one split.
            rank: Rank of this process.
            world_size: Number of processes.
            in_order: Whether the order of the split must be kept, because predictions are numbered by it.
        """
        return UnpaddedEvalSampler(len(examples), rank, world_size)

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
        """What identifies the classes and the splits that :meth:`setup` has read, by name."""
        found = {f"{split} split": fingerprint(len(e), self.content(e)) for split, e in self._splits.items()}
        return {"class names": fingerprint_of_names(self.info.class_names), **found}

    @property
    def class_counts(self) -> Sequence[int]:
        """See :class:`~data_modules.base.TaskDataModule`."""
        if self.task.kind not in ("classification", "text") or not self.num_classes:
            raise UserError(f"data: {self.info.name} has no single class for each example, which would be counted")
        counts: list[int] = np.bincount(cast(Any, self._splits["train"]).labels, minlength=self.num_classes).tolist()
        return counts

    @property
    def predict_indices(self) -> Sequence[int]:
        """Index in the test split of each example that :meth:`predict_dataloader` yields on this rank, in order."""
        rank, world_size = process_of(self)
        return range(rank, len(self._splits["test"]), world_size)

    def setup(self, stage: str) -> None:
        """Read the splits that ``stage`` needs (``fit``, ``validate``, ``test``, ``predict``)."""
        wanted = [split for split in _SPLITS[stage] if split != "val" or self.has_validation or stage != "fit"]
        missing = [split for split in wanted if split not in self._splits]
        if not missing:
            return
        found = self.load(missing)
        if "train" in found and self.limit_train is not None:
            found["train"] = self.first(found["train"], self.limit_train, "train")
        self._splits |= found

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
        if (size := len(examples)) > limit:
            if process_of(self)[0] == 0:
                print(
                    f"data       {limit:,} of the {size:,} training examples of {self.info.name}, drawn class by "
                    f"class; --data.limit_train sets a smaller number"
                )
            examples = self.first(examples, limit, "train")
        return self._eval_dataloader(examples, "train", in_order=False, is_shared=is_shared)

    def eval_dataloader(self, split: Split, in_order: bool = False) -> DataLoader[Any]:
        """Every example of a split once.

        Args:
            split: The split.
            in_order: Whether the order of the split must be kept.

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
        return self.info.sizes[0] if self.val_fraction == self.nominal_val_fraction else None

    def count_train(self) -> int:
        """Count the training examples in the files, without ``limit_train``.

        Raises:
            UserError: If the files are not present.
        """
        return len(self.load(("train", "val") if self.has_validation else ("train",))["train"])

    def announce_train_size(self, size: int) -> None:
        """Continue as if :meth:`setup` had read ``size`` training examples.

        ``limit_train`` applies to them. No example can be read afterwards.
        """
        left = size if self.limit_train is None else min(size, self.limit_train)
        self._splits["train"] = cast(ExamplesT, AnnouncedExamples(left))

    def refuse_empty(self, examples: ExamplesT, split: Split) -> ExamplesT:
        """Return the examples, of which there must be one."""
        if len(examples) == 0:
            why = "; too few images of each class are left to hold some out: --data.val_fraction 0 does without"
            remedy = why if split == "val" else ""
            raise UserError(f"data {self.info.name}: the {split} split below {self.root} is empty{remedy}")
        return examples
