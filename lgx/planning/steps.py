"""Steps and examples of a run, counted by the run's own loaders and method without reading data."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from jsonargparse import Namespace

from data_modules.base import TaskDataModule
from lgx.errors import UserError
from lgx.methods.base import Method
from lgx.planning.configured import PlanOptions


@dataclass(frozen=True)
class Steps:
    """Steps and examples of a run.

    Attributes:
        total: Optimizer steps.
        per_epoch: Optimizer steps per epoch.
        batches_per_epoch: Batches per epoch and process.
        accumulate: Batches whose gradients are accumulated for one step.
        batch: Examples per batch and process.
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
        """Examples per optimizer step."""
        return self.batch * self.accumulate * self.processes

    @property
    def epochs(self) -> float:
        """Number of epochs; the last one may be incomplete."""
        return self.samples / self.samples_per_epoch if self.samples_per_epoch else 0.0

    @property
    def samples_per_epoch(self) -> int:
        """Examples per epoch, on all processes."""
        return self.batches_per_epoch * self.batch * self.processes

    @property
    def samples(self) -> int:
        """Examples of the whole run; the last step of an epoch may have fewer batches."""
        whole, rest = divmod(self.total, self.per_epoch) if self.per_epoch else (0, 0)
        batches = whole * self.batches_per_epoch + min(rest * self.accumulate, self.batches_per_epoch)
        return batches * self.batch * self.processes


def count_steps(
    method: Method, data: TaskDataModule, trainer: Namespace, options: PlanOptions, processes: int
) -> tuple[Steps, tuple[str, ...]]:
    """Count the steps, and let the method learn its tasks.

    Args:
        method: The method; its trainer and tasks are set here.
        data: The data module; its training split is replaced by one of the planned size that cannot be read.
        trainer: Arguments of the trainer.
        options: PlanOptions of the plan.
        processes: GPUs in all.

    Returns:
        The steps, and where the number of training examples comes from.

    Raises:
        UserError: If the number of training examples or the end of the run is not known, or the method does not suit
            the data.
    """
    # The attributes of a trainer that loaders, samplers and methods read.
    counting: Any = SimpleNamespace(
        datamodule=data, strategy=None, world_size=processes, num_devices=1,
        global_rank=0, global_step=0, current_epoch=0,
        limit_train_batches=1.0 if trainer.limit_train_batches is None else trainer.limit_train_batches,
        accumulate_grad_batches=trainer.accumulate_grad_batches,
        max_epochs=trainer.max_epochs, max_steps=trainer.max_steps,
    )  # fmt: skip
    method.trainer = data.trainer = counting
    sizes = [_announce(member, options) for member in data.members()]
    method.setup("plan")  # the others may load the teacher
    data.num_workers = 0  # nothing is loaded
    total = method.total_steps()
    batches = data.train_dataloader().epoch_length
    accumulate = int(trainer.accumulate_grad_batches)
    steps = Steps(
        total=total,
        per_epoch=-(-batches // accumulate),
        batches_per_epoch=batches,
        accumulate=accumulate,
        batch=data.batch_size,
        processes=processes,
        training_examples=sum(size for size, _ in sizes),
    )
    return steps, tuple(dict.fromkeys(source for _, source in sizes))


def _announce(member: TaskDataModule, options: PlanOptions) -> tuple[int, str]:
    """Give a data module a training split of the right size, if possible without reading it.

    Returns:
        The number of training examples, with ``data.limit_train`` applied, and where it comes from.
    """
    size, source = options.known_samples(member.task.name), "as --samples says"
    if size is None:
        size, source = member.nominal_train_size(), "known of the set"
    if size is None:
        size, source = _counted(member), "counted on the disk"
    member.announce_train_size(size)
    return member.task.num_train, source


def _counted(member: TaskDataModule) -> int:
    """Count the training examples on the disk.

    Raises:
        UserError: If the files are not present.
    """
    try:
        return member.count_train()
    except UserError as error:
        name = member.task.name
        raise UserError(
            f"data {name}: how many training examples it has with this split is known from its files alone; "
            f"give --samples {name}=NUMBER, or bring the files ({error})"
        ) from error
