"""``TaskDataModule``: the interface of every data module for methods, callbacks and plans."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from lightning.pytorch import LightningDataModule

from lgx.core.batch import Batch
from lgx.core.task import ImageSize, Kind, Task
from lgx.errors import UserError

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

WORKER_TIMEOUT = 60
"""A run ends if its loader processes give no batch for this many seconds."""


@dataclass(frozen=True)
class DatasetInfo:
    """Facts about a data set that are true whether or not its files are present.

    Attributes:
        name: Short lower-case name, also the folder below ``root``.
        num_classes: Number of classes.
        sizes: Number of examples of (train, val, test) as this module splits them; None if not fixed.
        license: License or terms as its publishers state them.
        source: Where it comes from (project page).
        splits: One sentence: which split is which, and where validation examples come from.
        img_size: Default size.
        in_chans: Default number of channels.
        mean: Per-channel mean in [0, 1] for the default number of channels.
        std: Per-channel standard deviation, likewise.
        class_names: Names in index order; empty if only the files give them.
        kind: The kind of prediction.
        metric: Name of the main metric.
    """

    name: str
    num_classes: int
    sizes: tuple[int | None, int | None, int | None]
    license: str
    source: str
    splits: str
    img_size: ImageSize = 224
    in_chans: int = 3
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)
    class_names: tuple[str, ...] = ()
    kind: Kind = "classification"
    metric: str = "acc"


class TrainLoader(Protocol):
    """The result of :meth:`TaskDataModule.train_dataloader`: an iterable of batches with a known length."""

    @property
    def epoch_length(self) -> int:
        """Batches of an epoch on each process, with ``trainer.limit_train_batches`` applied."""


class TaskDataModule(LightningDataModule, ABC):
    """Base of all data modules: the only interface through which methods, callbacks and plans use one.

    A data module of your own derives from it, or from :class:`~data_modules.images.module.ImageDataModule`, which needs
    only a method that reads images and labels. The contract is as follows.

    - :attr:`task` is a ``lgx.core.task.Task``. Its classes, image size and channels are known before ``setup``.
    - ``setup(stage)`` reads what ``fit``, ``validate``, ``test`` or ``predict`` needs. It may be called several times.
    - :meth:`train_dataloader` gives an iterable of ``lgx.core.batch.Batch`` with ``epoch_length``, the number of
      batches of an epoch. A run resumes exactly if it also has ``state_dict`` and ``load_state_dict``.
    - ``val_dataloader``, ``test_dataloader`` and, for ``lgx predict``, ``predict_dataloader`` with
      :attr:`predict_indices` give every example once over all processes.
    - ``batch_size`` and ``num_workers`` are whole numbers; a training batch has ``batch_size`` examples.
    - A batch has ``inputs``, floating-point (B, C, H, W), normalized with the task's mean and std, or token ids, int64
      (B, N); ``targets``, int64, (B,), (B, H, W) for segmentation or (B, K) for several labels; and the task's name.

    The constructor's arguments are options of the command line. An argument ``seed`` gets the run's seed.
    ``data_modules.loading.loaders`` makes loaders that follow this contract.

    Attributes:
        batch_size: Training examples per process and step.
        num_workers: Loader processes.
        worker_timeout: Seconds that a step waits for loader processes; 0 sets no limit.
    """

    batch_size: int
    num_workers: int
    worker_timeout: int = WORKER_TIMEOUT

    @property
    @abstractmethod
    def task(self) -> Task:
        """The task, known before :meth:`setup`; ``num_train`` may be the nominal size until then."""

    @property
    def all_tasks(self) -> dict[str, Task]:
        """Every task by name, in order."""
        return {self.task.name: self.task}

    @property
    def num_classes(self) -> int:
        """Number of classes, known before any file is read."""
        return self.task.num_classes

    def follow_normalization(self, mean: Sequence[float], std: Sequence[float]) -> bool:
        """Normalize images as a network expects, unless the options give another normalization.

        By default the normalization stays that of :attr:`task`.

        Args:
            mean: Per-channel mean, in units of pixel value / 255.
            std: Per-channel standard deviation, likewise.

        Returns:
            Whether images now have this normalization.
        """
        return (tuple(self.task.mean), tuple(self.task.std)) == (tuple(mean), tuple(std))

    @abstractmethod
    def train_dataloader(self) -> TrainLoader:
        """Training batches of one epoch."""

    @property
    def has_validation(self) -> bool:
        """Whether a run is validated."""
        return bool(getattr(self, "val_fraction", 1))

    @property
    def has_test(self) -> bool:
        """Whether there are test examples."""
        return True

    @property
    def has_class_counts(self) -> bool:
        """Whether :attr:`class_counts` are known without reading further files; after ``setup("fit")``."""
        return False

    @property
    def class_counts(self) -> Sequence[int]:
        """Training examples of each class; after ``setup("fit")``.

        Raises:
            UserError: If this data module does not count them.
        """
        raise UserError(f"data: {type(self).__name__} does not count the examples of each class")

    def reference_dataloader(self, limit: int, is_shared: bool = True) -> Iterable[Batch]:
        """Training examples in the form of evaluation: once each, without augmentation; after ``setup("fit")``.

        Args:
            limit: Largest number of examples; from more examples, a class-stratified, seeded draw is read and reported.
            is_shared: Whether each process reads only its share.

        Raises:
            UserError: If this data module cannot read them so.
        """
        raise UserError(f"data: {type(self).__name__} cannot read training examples for evaluation; name a single set")

    @property
    def predict_indices(self) -> Sequence[int]:
        """Index in the test split of each example that ``predict_dataloader`` yields on this rank, in order.

        Raises:
            UserError: If this data module does not number its examples.
        """
        raise UserError(f"data: {type(self).__name__} has no predict_indices; use a data module that defines them")

    @property
    def predict_files(self) -> Sequence[str]:
        """File of each example of the test split, by index, relative to the folder of the split; empty if unknown."""
        return ()

    def fingerprint(self) -> dict[str, str]:
        """What identifies the classes and the splits that :meth:`setup` has read, by name; empty if unknown.

        A run is resumed only with the fingerprint with which it began.
        """
        return {}

    def split_batch(self, processes: int) -> None:
        """Interpret ``batch_size`` as the sum over all processes, and give each process its share.

        Raises:
            UserError: If they cannot have equal shares.
        """
        if self.batch_size % processes:
            raise UserError(
                f"data.batch_size: {processes} processes cannot have equal shares of {self.batch_size} examples; give "
                f"a multiple of {processes}, or --split_batch=false for this batch in each process"
            )
        self.batch_size //= processes

    def members(self) -> "Sequence[TaskDataModule]":
        """The data module of each task: itself, or its sets."""
        return [self]

    def nominal_train_size(self) -> int | None:
        """Number of training examples without ``limit_train``, as published; None if only the files give it."""
        return None

    def count_train(self) -> int:
        """Count the training examples in the files, without ``limit_train``.

        Raises:
            UserError: If the files are not present.
        """
        self.setup("fit")
        return self.task.num_train

    def epoch_batches(self, sizes: Sequence[int]) -> int:
        """Batches of an epoch on each process, if the :meth:`members` have so many training examples.

        By default the files decide, which :meth:`setup` reads.

        Raises:
            UserError: If this data module cannot have another number of examples than its files.
        """
        self.setup("fit")
        if list(sizes) != [self.task.num_train]:
            raise UserError(
                f"data: {type(self).__name__} has {self.task.num_train} training examples and cannot be planned with "
                f"{sum(sizes)}; leave out --samples"
            )
        return self.train_dataloader().epoch_length


def process_of(module: LightningDataModule) -> tuple[int, int]:
    """Rank and number of processes of a data module's trainer; (0, 1) without one."""
    return (module.trainer.global_rank, module.trainer.world_size) if module.trainer else (0, 1)
