"""Loaders of data modules: exact resume, any number of processes, every example evaluated once."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, get_worker_info

from data_modules.base import WORKER_TIMEOUT, TaskDataModule, process_of
from data_modules.loading.samplers import (
    Batching,
    ResumableLoader,
    TrainBatchSampler,
    TransformedExamples,
    unpadded_share,
)
from lgx.core.batch import Batch
from lgx.errors import UserError

Collate = Callable[[Sequence[Any]], Batch]
"""Makes a batch of examples."""


def stacked(task: str, examples: Sequence[tuple[Tensor, Any]]) -> Batch:
    """A batch of examples of one task: inputs are tensors of one shape, targets class indices or arrays."""
    inputs, targets = zip(*examples, strict=True)
    return Batch(torch.stack(inputs), torch.as_tensor(np.asarray(targets, np.int64)), task)


def shared(collate: Callable[[Any], Any], examples: Any) -> Any:
    """Make a batch, a tensor or a tuple with tensors, in a loader process in shared memory.

    Otherwise torch moves it there in a thread whose errors are only printed, and the training process would wait
    forever.

    Raises:
        RuntimeError: If the shared memory is full; DataLoader raises it again in the training process.
    """
    batch = collate(examples)
    if get_worker_info() is not None:
        for part in batch if isinstance(batch, tuple) else (batch,):
            if isinstance(part, torch.Tensor):
                part.share_memory_()
    return batch


def batching_of(module: TaskDataModule, seed: int) -> Batching:
    """How training examples become batches on this process, with the trainer's ``limit_train_batches``."""
    limit = module.trainer.limit_train_batches if module.trainer else None
    return Batching(module.batch_size, seed, *process_of(module), limit)


def train_batching(module: TaskDataModule, size: int, seed: int) -> Batching:
    """See :func:`batching_of`; for ``size`` examples.

    Raises:
        UserError: If the examples do not fill one batch on every process.
    """
    batching = batching_of(module, seed)
    if size < batching.global_batch:
        raise UserError(
            f"data.batch_size: {module.batch_size} x {batching.world_size} processes exceeds the {size} training "
            f"examples of {module.task.name}; use a smaller batch_size"
        )
    return batching


def check_share(module: TaskDataModule, size: int, where: str) -> tuple[int, int]:
    """Rank and number of processes, among which the examples of evaluation are shared.

    Raises:
        UserError: If there are fewer examples, ``size``, than processes; ``where`` names set and split.
    """
    rank, world_size = process_of(module)
    if size < world_size:
        raise UserError(f"{where}: {size} examples for {world_size} processes; use fewer processes")
    return rank, world_size


def train_loader(
    module: TaskDataModule,
    examples: TransformedExamples,
    seed: int,
    collate: Collate | None = None,
    sampler: TrainBatchSampler | None = None,
) -> ResumableLoader:
    """Shuffled training batches of a data module; the loader can resume in the middle of an epoch.

    The order depends only on (seed, epoch). All processes together have the same batches for any number of processes.
    An incomplete last batch is left out.

    Args:
        module: The data module; its ``batch_size`` and ``num_workers`` count.
        examples: The training examples, each an input and its target. ``examples[epoch, index]`` is read: the epoch
            determines the augmentation.
        seed: Seed of the order.
        collate: Makes a batch of examples; by default inputs and targets are stacked.
        sampler: Another order of the batches.

    Raises:
        UserError: If the examples do not fill one batch on every process.
    """
    sampler = sampler or TrainBatchSampler(len(examples), train_batching(module, len(examples), seed))
    collate = collate or partial(stacked, module.task.name)
    options = loader_options(module.num_workers, collate, module.worker_timeout)
    return ResumableLoader(examples, batch_sampler=sampler, **options)


def eval_loader(
    module: TaskDataModule,
    examples: TransformedExamples,
    collate: Collate | None = None,
    sampler: Sequence[int] | None = None,
    batch_size: int | None = None,
) -> DataLoader[Any]:
    """Every example once over all processes, in order.

    Args:
        module: The data module; its ``batch_size`` and ``num_workers`` count.
        examples: Examples of one split, each an input and its target.
        collate: Makes a batch of examples; by default inputs and targets are stacked.
        sampler: Another order of this process's examples.
        batch_size: Examples of a batch; default the module's.

    Raises:
        UserError: If there are fewer examples than processes.
    """
    size = batch_size or module.batch_size
    if sampler is None:
        sampler = unpadded_share(len(examples), *check_share(module, len(examples), module.task.name))
    collate = collate or partial(stacked, module.task.name)
    options = loader_options(module.num_workers, collate, module.worker_timeout)
    # Keyword arguments only: Lightning rebuilds the loader from them for `lgx predict`.
    return DataLoader(examples, batch_size=size, sampler=sampler, **options)


def loader_options(num_workers: int, collate: Callable[..., Any], timeout: int = WORKER_TIMEOUT) -> dict[str, Any]:
    """Arguments of a DataLoader, except its data set and sampler.

    Args:
        num_workers: Loader processes.
        collate: Makes a batch of examples.
        timeout: Seconds to wait for a batch of the loader processes; 0 sets no limit.
    """
    return {
        "num_workers": num_workers,
        "persistent_workers": num_workers > 0,
        "pin_memory": torch.cuda.is_available(),
        "collate_fn": partial(shared, collate),
        "worker_init_fn": _leave_group,
        "timeout": timeout if num_workers else 0,
    }


def _leave_group(worker: int) -> None:
    """Ignore signals in loader processes: a scheduler signals the whole process group, and only training handles it.

    The training process still gets batches for its last step, saves its state, and ends the loader processes.
    """
    os.setpgid(0, 0)
