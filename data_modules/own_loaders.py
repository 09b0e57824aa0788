"""Loaders for data modules of one's own: exact resume, any number of processes, every example evaluated once."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from data_modules.base import TaskDataModule, batching_of, process_of
from data_modules.loading import module_options
from data_modules.samplers import ResumableLoader, TrainBatchSampler, UnpaddedEvalSampler
from lgx.core.batch import Batch
from lgx.errors import UserError

Collate = Callable[[Sequence[Any]], Batch]
"""Makes a batch of examples."""


class StackedBatch:
    """Makes a batch of examples (input, target) of one task: tensors of one shape, class indices or arrays.

    Args:
        task: Name of the task.
    """

    def __init__(self, task: str) -> None:
        self.task = task

    def __call__(self, examples: Sequence[tuple[Tensor, Any]]) -> Batch:
        """Stack inputs and targets."""
        inputs, targets = zip(*examples, strict=True)
        return Batch(torch.stack(inputs), torch.as_tensor(np.asarray(targets, np.int64)), self.task)


class Examples(Protocol):
    """A map-style data set: ``examples[index]`` is one example.

    For training, ``examples[epoch, index]`` is asked for: the epoch for which an augmentation is drawn.
    :class:`~data_modules.samplers.TransformedExamples` answers both.
    """

    def __len__(self) -> int: ...
    def __getitem__(self, key: Any, /) -> Any: ...


def train_loader(
    module: TaskDataModule, examples: Examples, seed: int, collate: Collate | None = None
) -> ResumableLoader:
    """Shuffled training batches of a data module; the loader can resume in the middle of an epoch.

    The order depends on (seed, epoch) alone, and the batches of all processes together are the same for any number of
    processes. An incomplete last batch is left out.

    Args:
        module: The data module; its ``batch_size`` and ``num_workers`` count.
        examples: The training examples, each an input and its target.
        seed: Seed of the order.
        collate: Makes a batch of examples; by default inputs and targets are stacked.

    Raises:
        UserError: If the examples do not fill one batch on every process.
    """
    batching = batching_of(module, module.batch_size, seed)
    if len(examples) < batching.global_batch:
        raise UserError(
            f"data.batch_size: {module.batch_size} x {batching.world_size} processes exceeds the {len(examples)} "
            f"training examples of {module.task.name}; use a smaller batch_size"
        )
    sampler = TrainBatchSampler(len(examples), batching)
    options = module_options(module, collate or StackedBatch(module.task.name), module.batch_size)
    return ResumableLoader(examples, batch_sampler=sampler, **options)  # type: ignore[arg-type]


def eval_loader(module: TaskDataModule, examples: Examples, collate: Collate | None = None) -> DataLoader[Any]:
    """Every example once over all processes, in order.

    Args:
        module: The data module; its ``batch_size`` and ``num_workers`` count.
        examples: Examples of one split, each an input and its target.
        collate: Makes a batch of examples; by default inputs and targets are stacked.

    Raises:
        UserError: If there are fewer examples than processes.
    """
    rank, world_size = process_of(module)
    if len(examples) < world_size:
        raise UserError(f"{module.task.name}: {len(examples)} examples for {world_size} processes; use fewer processes")
    sampler = UnpaddedEvalSampler(len(examples), rank, world_size)
    options = module_options(module, collate or StackedBatch(module.task.name), module.batch_size)
    return DataLoader(examples, batch_size=module.batch_size, sampler=sampler, **options)  # type: ignore[arg-type]
