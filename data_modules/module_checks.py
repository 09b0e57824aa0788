"""Checks of data modules of other packages: one message for each violation of ``TaskDataModule``'s contract."""

from collections.abc import Sequence
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor

from data_modules.base import TaskDataModule
from lgx.core.batch import Batch
from lgx.core.schema import shortened
from lgx.core.seed import seeded_rng
from lgx.core.task import Kind, Task, ignored_target
from lgx.errors import UserError

Loader = Literal["train", "val", "test", "predict"]
"""A loader of a data module: ``<name>_dataloader``."""


def check_task(owner: str, task: Any) -> Task:
    """Return what a data module of the class ``owner`` says of its task.

    Raises:
        UserError: If it is not a ``Task``, or contradicts itself.
    """
    _require(isinstance(task, Task), f"task of {owner} is {shortened(task)}, expected an lgx.core.task.Task")
    is_image = not task.reads_text
    channels = (task.in_chans, task.in_chans)
    for holds, wrong, right in (
        (task.kind in get_args(Kind), f"kind is {task.kind!r}", " or ".join(get_args(Kind))),
        (not is_image or (len(task.mean), len(task.std)) == channels,
         f"mean and std have {len(task.mean)} and {len(task.std)} values", f"one for each of {task.in_chans} channels"),
        (is_image or (task.max_len > 0 and task.vocab_size > 0),
         f"max_len and vocab_size are {task.max_len} and {task.vocab_size}", "those of the texts"),
        (len(task.class_names) in (0, task.num_classes),
         f"class_names has {len(task.class_names)} names", f"one for each of {task.num_classes} classes, or none"),
    ):  # fmt: skip
        _require(holds, f"task of {owner}: {wrong}, expected {right}")
    return cast(Task, task)


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
        UserError: If it breaks the contract that the docstring of ``TaskDataModule`` states.
    """
    owner = type(module).__name__
    check_options(module)
    tasks = {name: check_task(owner, task) for name, task in module.all_tasks.items()}
    for loader in loaders:
        place = f"{loader}_dataloader of {owner}"
        with seeded_rng(0):
            batch: Any = next(iter(getattr(module, f"{loader}_dataloader")()), None)
        expected = "expected lgx.core.batch.Batch(inputs, targets, task)"
        _require(isinstance(batch, Batch), f"{place} gives a {type(batch).__name__}, {expected}")
        wrong = f"a batch of {place} is of task {shortened(batch.task)}, expected {' or '.join(tasks)}"
        _require(batch.task in tasks, wrong)
        batch = module.on_after_batch_transfer(batch, 0)  # may normalize
        _check_inputs(batch.inputs, tasks[batch.task], place)
        _check_targets(batch.targets, batch.inputs.shape, tasks[batch.task], place)


def _check_inputs(inputs: Any, task: Task, place: str) -> None:
    """Images (B, C, H, W), normalized; or texts (B, 3, N)."""
    if task.reads_text:
        holds = isinstance(inputs, Tensor) and inputs.ndim == 3 and inputs.dtype == torch.int64
        holds = holds and inputs.shape[1] == 3 and inputs.shape[2] <= task.max_len
        right = f"token ids, attention mask and token types, int64, (B, 3, at most {task.max_len})"
    else:
        shape = task.image_shape
        holds = isinstance(inputs, Tensor) and inputs.is_floating_point() and inputs.shape[1:] == shape
        right = f"normalized images, floating-point, (B, {', '.join(map(str, shape))})"
    _require(holds and len(inputs), f"inputs of {place} are {_described(inputs)}, expected {right}")


def _check_targets(targets: Any, inputs: Sequence[int], task: Task, place: str) -> None:
    """Class indices, 0 and 1 for each label, or next tokens of inputs of a shape; meaningless without labels."""
    if not task.is_labeled:
        return
    sizes = {"segmentation": task.image_shape[1:], "multilabel": (task.num_classes,), "language": inputs[2:]}
    shape = (inputs[0], *sizes.get(task.kind, ()))
    holds = isinstance(targets, Tensor) and targets.dtype == torch.int64 and targets.shape == shape
    right = f"int64, ({', '.join(map(str, shape))})"
    _require(holds, f"targets of {place} are {_described(targets)}, expected {right}")
    ignored = ignored_target(task.kind)
    counted = targets if ignored is None else targets[targets != ignored]
    if counted.numel():
        least, largest = int(counted.min()), int(counted.max())
        most = 1 if task.kind == "multilabel" else task.num_classes - 1
        wrong = f"{least} to {largest}, expected 0 to {most} for {task.num_classes} classes"
        _require(0 <= least and largest <= most, f"targets of {place} are {wrong}")


def _require(holds: object, otherwise: str) -> None:
    if not holds:
        raise UserError(f"data: {otherwise}")


def _described(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}"
    return f"{str(value.dtype).removeprefix('torch.')}, ({', '.join(map(str, value.shape))})"
