"""Steps and examples of a run, counted by its own loaders and its own method, none of which reads a file."""

import inspect
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from jsonargparse import Namespace
from lightning.pytorch import LightningDataModule

from data_modules import ImageDataModule, ShardedData, TextDataModule
from data_modules.several import SeveralSets
from lgx.errors import UserError
from lgx.methods.base import Method
from lgx.planning.options import Options


@dataclass(frozen=True)
class Steps:
    """How long a run is.

    Attributes:
        total: Optimizer steps.
        per_epoch: Optimizer steps of an epoch.
        batches_per_epoch: Batches of an epoch and process.
        accumulate: Batches whose gradients one step adds up.
        batch: Examples of a batch, per process.
        processes: GPUs in all.
        training_examples: Examples of the training split.
    """

    total: int
    per_epoch: int
    batches_per_epoch: int
    accumulate: int
    batch: int
    processes: int
    training_examples: int

    @property
    def effective_batch(self) -> int:
        """Examples behind one optimizer step."""
        return self.batch * self.accumulate * self.processes

    @property
    def epochs(self) -> float:
        """Epochs, the last one perhaps in part."""
        return self.samples / self.samples_per_epoch if self.samples_per_epoch else 0.0

    @property
    def samples_per_epoch(self) -> int:
        """Examples that an epoch sees, on all processes."""
        return self.batches_per_epoch * self.batch * self.processes

    @property
    def samples(self) -> int:
        """Examples that the run sees; an epoch's last step may be of fewer batches than the others."""
        whole, rest = divmod(self.total, self.per_epoch) if self.per_epoch else (0, 0)
        batches = whole * self.batches_per_epoch + min(rest * self.accumulate, self.batches_per_epoch)
        return batches * self.batch * self.processes


def count_steps(
    method: Method, data: LightningDataModule, trainer: Namespace, options: Options, processes: int
) -> tuple[Steps, tuple[str, ...]]:
    """Count the steps, and let the method learn its tasks.

    Args:
        method: The method; gets a trainer that knows what is counted by, and its tasks.
        data: The data module; its training split then has as many examples as planned, none of which can be read.
        trainer: Arguments of the trainer.
        options: Those of the plan.
        processes: GPUs in all.

    Returns:
        The steps, and where the number of training examples comes from.

    Raises:
        UserError: If the number of training examples is not known, the end of the run neither, or what is trained does
            not suit the data.
    """
    # What loaders, samplers and methods ask of a trainer.
    counting: Any = SimpleNamespace(
        datamodule=data, strategy=None, world_size=processes, global_rank=0, global_step=0, current_epoch=0,
        limit_train_batches=1.0 if trainer.limit_train_batches is None else trainer.limit_train_batches,
        accumulate_grad_batches=trainer.accumulate_grad_batches,
        max_epochs=trainer.max_epochs, max_steps=trainer.max_steps,
    )  # fmt: skip
    module: Any = data
    method.trainer = module.trainer = counting
    modules = list(module.sets.values()) if isinstance(module, SeveralSets) else [module]
    sizes = [_announce(one, options) for one in modules]
    method.setup("validate")  # not for fit, which would load the ancestor
    module.num_workers = 0  # nothing is loaded
    total = method.total_steps()
    batches = int(module.train_dataloader().epoch_length)
    accumulate = int(trainer.accumulate_grad_batches)
    steps = Steps(
        total=total,
        per_epoch=-(-batches // accumulate),
        batches_per_epoch=batches,
        accumulate=accumulate,
        batch=int(module.batch_size),
        processes=processes,
        training_examples=sum(size for size, _ in sizes),
    )
    return steps, tuple(dict.fromkeys(source for _, source in sizes))


class _Announced:
    """A training split of which nothing but its size is known.

    Args:
        size: Number of examples.
    """

    def __init__(self, size: int) -> None:
        self.labels = self.lengths = np.zeros(size, np.int64)

    def __len__(self) -> int:
        return len(self.labels)


def _announce(module: Any, options: Options) -> tuple[int, str]:
    """Give a data module a training split of the right size, without reading it; the size, and who says so."""
    if not isinstance(module, ImageDataModule | TextDataModule):  # a user's own, of which nothing is known
        module.setup("fit")
        return int(module.task.num_train), "counted on the disk"
    size, source = options.known_samples(module.info.name), "as --samples says"
    if size is None:
        size, source = _known_size(module), "known of the set"
    if size is None:
        size, source = _counted(module), "counted on the disk"
    if module.limit_train is not None:
        size = min(size, module.limit_train)
    splits: dict[Any, Any] = module._texts if isinstance(module, TextDataModule) else module._images
    splits["train"] = _Announced(size)
    return size, source


def _known_size(module: Any) -> int | None:
    """Training examples as the set's facts have them: with the share for validation that the set has by default."""
    size: int | None = module.info.sizes[0]
    if isinstance(module, ShardedData):  # was split when it was written
        return size
    constructors = (
        inspect.signature(vars(c)["__init__"]).parameters for c in type(module).__mro__ if "__init__" in vars(c)
    )
    default = next(p["val_fraction"].default for p in constructors if "val_fraction" in p)
    return size if module.val_fraction == default else None


def _counted(module: Any) -> int:
    """Training examples on the disk.

    Raises:
        UserError: If they are not there.
    """
    limit, module.limit_train = module.limit_train, None
    try:
        if getattr(module, "source", "files") == "hub":
            raise UserError("it would have to be downloaded")
        module.setup("fit")
    except UserError as error:
        raise UserError(
            f"data {module.info.name}: how many training examples it has with this split is known from its files "
            f"alone; give --samples {module.info.name}=NUMBER, or bring the files ({error})"
        ) from error
    module.limit_train = limit
    return len(module.examples("train"))
