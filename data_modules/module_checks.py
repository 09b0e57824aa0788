"""Checks of data modules of other packages: each broken promise of ``TaskDataModule`` is one sentence."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor

from data_modules.base import TaskDataModule
from lgx.core.batch import IGNORE, Batch
from lgx.core.image_size import IMAGE_SIZE
from lgx.core.schema import LINE, shortened
from lgx.core.seed import seeded_rng
from lgx.core.task import Kind, Task
from lgx.errors import UserError

Loader = Literal["train", "val", "test", "predict"]
"""A loader of a data module: ``<name>_dataloader``."""


def check_task(owner: str, task: Any) -> Task:
    """Refuse a value that cannot be used as a task.

    Args:
        owner: Class of the data module, for the message.
        task: What it says of its task.

    Raises:
        UserError: If it is no ``Task``, or contradicts itself.
    """
    if not isinstance(task, Task):
        raise UserError(f"data: task of {owner} is {shortened(task)}, expected an lgx.core.task.Task")
    is_image = task.kind != "text"
    channels = (task.in_chans, task.in_chans)
    for holds, wrong, right in (
        (LINE.holds(task.name) and task.name, f"name is {task.name!r}", "a short name in one line"),
        (task.kind in get_args(Kind), f"kind is {task.kind!r}", " or ".join(get_args(Kind))),
        (_is_count(task.num_classes), f"num_classes is {task.num_classes!r}", "a whole number, 0 without labels"),
        (_is_count(task.num_train), f"num_train is {task.num_train!r}", "a whole number, 0 where it is not known yet"),
        (not is_image or (_is_count(task.in_chans) and task.in_chans and IMAGE_SIZE.holds(task.img_size)),
         f"in_chans and img_size are {task.in_chans!r} and {task.img_size!r}", "those of the images"),
        (not is_image or (len(task.mean), len(task.std)) == channels,
         f"mean and std have {len(task.mean)} and {len(task.std)} values", f"one for each of {task.in_chans} channels"),
        (is_image or (task.max_len > 0 and task.vocab_size > 0),
         f"max_len and vocab_size are {task.max_len} and {task.vocab_size}", "those of the texts"),
        (len(task.class_names) in (0, task.num_classes),
         f"class_names has {len(task.class_names)} names", f"one for each of {task.num_classes} classes, or none"),
    ):  # fmt: skip
        if not holds:
            raise UserError(f"data: task of {owner}: {wrong}, expected {right}")
    return task


def check_options(module: TaskDataModule) -> None:
    """Refuse a data module without the numbers that every command reads of it.

    Args:
        module: The module, which may have read nothing.

    Raises:
        UserError: If its batch size or its number of loader processes is missing or wrong.
    """
    for option, least in (("batch_size", 1), ("num_workers", 0)):
        value: Any = getattr(module, option, None)
        if not _is_count(value) or value < least:
            owner = type(module).__name__
            raise UserError(f"data: {option} of {owner} is {value!r}, expected a whole number of at least {least}")


def is_of_another_package(module: TaskDataModule) -> bool:
    """Whether a data module is a user's own; those of this package are checked by its tests."""
    return type(module).__module__.split(".")[0] != "data_modules"


def check_module(module: TaskDataModule, loaders: Sequence[Loader]) -> None:
    """Check a data module after its ``setup``, with the first batch of each loader; no random number is used up.

    Args:
        module: The data module.
        loaders: The loaders that a command needs.

    Raises:
        UserError: If it breaks the contract that the docstring of ``TaskDataModule`` states.
    """
    owner = type(module).__name__
    check_options(module)
    tasks = module.all_tasks
    for name, task in tasks.items():
        if check_task(owner, task).name != name:
            raise UserError(f"data: all_tasks of {owner} has {task.name} under the name {name}; use the task's name")
    for loader in loaders:
        if getattr(type(module), f"{loader}_dataloader") is getattr(LightningDataModule, f"{loader}_dataloader"):
            raise UserError(f"data: {owner} has no {loader}_dataloader, which this command needs; define it")
        with seeded_rng(0):
            _check_loader(module, loader, f"{loader}_dataloader of {owner}")
    if "predict" in loaders:
        _ = module.predict_indices


def _check_loader(module: TaskDataModule, loader: Loader, place: str) -> None:
    batches: Any = getattr(module, f"{loader}_dataloader")()
    if not isinstance(batches, Iterable):
        raise UserError(f"data: {place} gives {shortened(batches)}, expected an iterable of batches")
    if loader == "train":
        length = getattr(batches, "epoch_length", None)
        if not _is_count(length) or length == 0:
            raise UserError(
                f"data: epoch_length of the {place} is {length!r}, expected the number of batches of an epoch; "
                f"data_modules.loading.loaders.train_loader makes such a loader"
            )
    batch = next(iter(batches), None)
    if batch is None:
        raise UserError(f"data: {place} gives no batch; expected at least one")
    if not isinstance(batch, Batch):
        raise UserError(
            f"data: {place} gives a {type(batch).__name__}, expected lgx.core.batch.Batch(inputs, targets, task)"
        )
    if batch.task not in module.all_tasks:
        raise UserError(
            f"data: a batch of {place} is of task {shortened(batch.task)}, expected {' or '.join(module.all_tasks)}"
        )
    task, batch = module.all_tasks[batch.task], module.on_after_batch_transfer(batch, 0)  # may normalize
    _check_inputs(batch.inputs, task, place)
    _check_targets(batch.targets, len(batch.inputs), task, place)
    if loader == "train" and len(batch.inputs) != module.batch_size:
        raise UserError(
            f"data: a batch of {place} has {len(batch.inputs)} examples, but batch_size is {module.batch_size}; make "
            f"them agree"
        )


def _check_inputs(inputs: Any, task: Task, place: str) -> None:
    """Images (B, C, H, W), normalized; or token ids (B, N)."""
    if task.kind == "text":
        holds = isinstance(inputs, Tensor) and inputs.ndim == 2 and inputs.dtype == torch.int64
        holds = holds and inputs.shape[1] <= task.max_len
        right = f"token ids, int64, (B, at most {task.max_len})"
    else:
        shape = task.image_shape
        holds = isinstance(inputs, Tensor) and inputs.is_floating_point() and inputs.shape[1:] == shape
        right = f"normalized images, floating-point, (B, {', '.join(map(str, shape))})"
    if not holds or not len(inputs):
        raise UserError(f"data: inputs of {place} are {_described(inputs)}, expected {right}")


def _check_targets(targets: Any, size: int, task: Task, place: str) -> None:
    """Class indices, or 0 and 1 for each label; without meaning where a task has no labels."""
    if not task.is_labeled:
        return
    pixels = task.image_shape[1:]
    of_example = {"segmentation": pixels, "multilabel": (task.num_classes,)}.get(task.kind, ())
    if not isinstance(targets, Tensor) or targets.dtype != torch.int64 or targets.shape != (size, *of_example):
        right = ", ".join(map(str, (size, *of_example)))
        raise UserError(f"data: targets of {place} are {_described(targets)}, expected int64, ({right})")
    counted = targets[targets != IGNORE] if task.kind in ("segmentation", "multilabel") else targets
    most = 1 if task.kind == "multilabel" else task.num_classes - 1
    if counted.numel() and not 0 <= int(counted.min()) <= int(counted.max()) <= most:
        found = f"{int(counted.min())} to {int(counted.max())}"
        raise UserError(f"data: targets of {place} are {found}, expected 0 to {most} for {task.num_classes} classes")


def _described(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}"
    return f"{str(value.dtype).removeprefix('torch.')}, ({', '.join(map(str, value.shape))})"


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0
