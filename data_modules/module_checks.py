"""Checks of data modules of other packages: one message for each violation of ``TaskDataModule``'s contract."""

from collections.abc import Sequence
from typing import Any, Literal

import torch

from data_modules.base import TaskDataModule
from lgx.core.batch import Batch
from lgx.core.schema import shortened
from lgx.core.seed import seeded_rng
from lgx.core.task import Task, ignored_target
from lgx.errors import UserError

Loader = Literal["train", "val", "test", "predict"]
"""A loader of a data module: ``<name>_dataloader``."""


def check_task(owner: str, task: Any) -> None:
    """Refuse what a data module of the class ``owner`` gives as its task, if that is not a ``Task``."""
    _require(isinstance(task, Task), f"task of {owner} is {shortened(task)}, expected an lgx.core.task.Task")
    names = (
        f"class_names has {len(task.class_names)} names, expected one for each of {task.num_classes} classes, or none"
    )
    _require(len(task.class_names) in (0, task.num_classes), f"task of {owner}: {names}")


def check_options(module: TaskDataModule) -> None:
    """Refuse a data module whose batch size or number of loader processes is missing or wrong."""
    for option, least in (("batch_size", 1), ("num_workers", 0)):
        value: Any = getattr(module, option, None)
        wrong = f"{option} of {type(module).__name__} is {value!r}, expected a whole number of at least {least}"
        _require(type(value) is int and value >= least, wrong)


def is_of_another_package(module: TaskDataModule) -> bool:
    """Whether a data module comes from another package; this package's modules are checked by tests."""
    return type(module).__module__.split(".")[0] != "data_modules"


def check_module(module: TaskDataModule, loaders: Sequence[Loader]) -> None:
    """Check a data module after its ``setup``, with the first batch of each loader, without drawing random numbers.

    Raises:
        UserError: If a batch is of another form than the docstring of ``TaskDataModule`` states.
    """
    owner = type(module).__name__
    tasks = module.all_tasks
    for loader in loaders:
        place = f"{loader}_dataloader of {owner}"
        with seeded_rng(0):
            batch: Any = next(iter(getattr(module, f"{loader}_dataloader")()), None)
        expected = "expected lgx.core.batch.Batch(inputs, targets, task)"
        _require(isinstance(batch, Batch), f"{place} gives a {type(batch).__name__}, {expected}")
        wrong = f"a batch of {place} is of task {shortened(batch.task)}, expected {' or '.join(tasks)}"
        _require(batch.task in tasks, wrong)
        _check_batch(module.on_after_batch_transfer(batch, 0), tasks[batch.task], place)  # may normalize


def _check_batch(batch: Batch, task: Task, place: str) -> None:
    """Refuse images of another shape or type, and targets beyond the classes, which fail on a GPU without a name."""
    inputs, targets = batch.inputs, batch.targets
    if not task.reads_text:
        holds = inputs.is_floating_point() and inputs.shape[1:] == task.image_shape
        right = f"normalized images, floating-point, (B, {', '.join(map(str, task.image_shape))})"
        _require(holds, f"inputs of {place} are {inputs.dtype}, {tuple(inputs.shape)}, expected {right}")
    if not task.is_labeled:
        return
    _require(targets.dtype == torch.int64, f"targets of {place} are {targets.dtype}, expected int64")
    ignored = ignored_target(task.kind)
    counted = targets if ignored is None else targets[targets != ignored]
    most = 1 if task.kind == "multilabel" else task.num_classes - 1
    outside = counted[(counted < 0) | (counted > most)]
    wrong = f"{outside[:3].tolist()}, expected 0 to {most} for {task.num_classes} classes"
    _require(not len(outside), f"targets of {place} contain {wrong}")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise UserError(f"data: {otherwise}")
