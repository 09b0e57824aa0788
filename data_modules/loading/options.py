"""The options that all data modules share.

They are dataclasses, from which the data modules inherit their constructors. An option stays an attribute of its name,
exactly as it was given; a value that follows from several options is a property or part of the task.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from data_modules.base import WORKER_TIMEOUT
from data_modules.loading.loaders import check_workers
from lgx.errors import UserError

VAL_FRACTION = 0.1


@dataclass(eq=False, repr=False)
class DataOptions:
    """Options of every data module.

    Args:
        root: Folder that contains the data sets, one folder each.
        batch_size: Training examples per process and step.
        eval_batch_size: Evaluation examples per process and step; default 2 x ``batch_size``.
        num_workers: Loader processes; 0 loads in the training process.
        worker_timeout: Seconds that a step waits for a batch of the loader processes before the run ends; 0 waits for
            ever.
        val_fraction: Share of the training examples held out for validation if the set has no official split for it; 0
            trains on all of them, without any validation.
        split_seed: Seed of that split. Not the run's seed, so that runs with different seeds stay comparable.
        seed: Seed of order and augmentation.
        limit_train: Use only the first so many training examples of a class-stratified, seeded draw.

    Raises:
        UserError: If an option is out of range.
    """

    root: str = "data"
    batch_size: int = 128
    eval_batch_size: int | None = None
    num_workers: int = 0
    worker_timeout: int = WORKER_TIMEOUT
    val_fraction: float = VAL_FRACTION
    split_seed: int = 0
    seed: int = 0
    limit_train: int | None = None

    def __post_init__(self) -> None:
        self.check_options()

    def check_options(self) -> None:
        """Refuse options that are out of range.

        Raises:
            UserError: If one is.
        """
        check_least(self, {"batch_size": 1, "eval_batch_size": 1, "worker_timeout": 0, "limit_train": 1})
        check_workers(self.num_workers, "data.num_workers")
        if not 0 <= self.val_fraction < 1:
            raise UserError(f"data.val_fraction: expected a share of at least 0 and below 1, got {self.val_fraction}")

    @property
    def root_folder(self) -> Path:
        """``root`` as a path."""
        return Path(self.root)

    @property
    def evaluation_batch(self) -> int:
        """Evaluation examples per process and step."""
        return self.eval_batch_size or 2 * self.batch_size


def check_least(options: object, least: Mapping[str, int]) -> None:
    """Refuse numbers that are too small.

    Args:
        options: Object with the options as attributes; None is allowed if it is the default.
        least: Smallest value of each option.

    Raises:
        UserError: If an option is below its smallest value.
    """
    for option, smallest in least.items():
        value = getattr(options, option)
        if value is not None and value < smallest:
            optional = " or null" if getattr(type(options), option) is None else ""
            raise UserError(f"data.{option}: expected at least {smallest}{optional}, got {value}")


def copy_options(kind: type[DataOptions], source: DataOptions, target: DataOptions) -> None:
    """Give ``target`` all options of ``kind`` that ``source`` has, except ``root``.

    Raises:
        UserError: If an option is out of range.
    """
    assert isinstance(source, kind)
    assert isinstance(target, kind)
    for option in fields(kind):
        if option.name != "root":
            setattr(target, option.name, getattr(source, option.name))
    target.check_options()
