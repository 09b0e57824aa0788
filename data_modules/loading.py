"""Loader processes: the arguments of every DataLoader, and the shared memory through which batches are handed over."""

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import get_worker_info

from data_modules.base import WORKER_TIMEOUT, TaskDataModule
from lgx.core.batch import Batch
from lgx.core.task import Task
from lgx.errors import UserError

MOST_WORKERS = max(64, 8 * (os.cpu_count() or 1))
"""Most loader processes; more of them wait for a core and take memory."""

_AHEAD = 2
"""Batches that each loader process makes ahead: DataLoader's default."""

_SHARED = Path("/dev/shm")
"""Where torch's processes share tensors on Linux, with each of its strategies; other systems have no such folder."""


class SharedCollate:
    """Makes a batch, in a loader process in shared memory.

    Without this torch moves it there later, in a thread whose errors are only printed, so that the training process
    waits for the batch for ever.

    Args:
        collate: Makes a batch of examples: a tensor, or a tuple with tensors.
    """

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self.collate = collate

    def __call__(self, examples: Any) -> Any:
        """Make a batch.

        Raises:
            RuntimeError: If the shared memory is full; DataLoader raises it again in the training process.
        """
        batch = self.collate(examples)
        if get_worker_info() is not None:
            for part in batch if isinstance(batch, tuple) else (batch,):
                if isinstance(part, torch.Tensor):
                    part.share_memory_()
        return batch


def module_options(
    module: TaskDataModule, collate: Callable[..., Batch], batch_size: int, num_workers: int | None = None
) -> dict[str, Any]:
    """Arguments of a data module's DataLoader, except its data set and sampler.

    Args:
        module: The data module.
        collate: Makes a batch of examples.
        batch_size: Examples of a batch.
        num_workers: Loader processes; default the module's.

    Raises:
        UserError: As :func:`loader_options`.
    """
    workers = module.num_workers if num_workers is None else num_workers
    tasks, timeout = module.all_tasks.values(), module.worker_timeout
    return loader_options(workers, collate, tasks, batch_size, timeout, "data.", _local(module))


def loader_options(
    num_workers: int,
    collate: Callable[..., Any],
    tasks: Iterable[Task],
    batch_size: int,
    timeout: int = WORKER_TIMEOUT,
    prefix: str = "",
    processes: int = 1,
) -> dict[str, Any]:
    """Arguments of a DataLoader, except its data set and sampler.

    Args:
        num_workers: Loader processes.
        collate: Makes a batch of examples.
        tasks: The tasks of its batches.
        batch_size: Examples of a batch.
        timeout: Seconds to wait for a batch of the loader processes; 0 waits for ever.
        prefix: What stands before the names of options in messages.
        processes: Training processes on this machine.

    Raises:
        UserError: If the shared memory cannot hold the batches that the loader processes make ahead.
    """
    if num_workers:
        largest = max(batch_size * example_bytes(task) for task in tasks)
        check_shared_memory(num_workers, largest, prefix, processes)
    return {
        "num_workers": num_workers,
        "persistent_workers": num_workers > 0,
        "pin_memory": torch.cuda.is_available(),
        "collate_fn": SharedCollate(collate),
        "timeout": timeout if num_workers else 0,
    }


def check_workers(num_workers: int, option: str) -> None:
    """Refuse a number of loader processes that no machine like this one can use.

    Raises:
        UserError: If it is negative or above :data:`MOST_WORKERS`.
    """
    if not 0 <= num_workers <= MOST_WORKERS:
        raise UserError(
            f"{option}: expected 0 to {MOST_WORKERS} on this machine with {os.cpu_count()} cores, got {num_workers}"
        )


def example_bytes(task: Task) -> int:
    """Size of an example's tensors in a batch, at most."""
    if task.kind == "text":
        return 8 * task.max_len + 8
    pixels = task.img_size**2
    targets = {"segmentation": pixels, "multilabel": task.num_classes}.get(task.kind, 1)
    return 4 * task.in_chans * pixels + 8 * targets


def check_shared_memory(num_workers: int, batch: int, prefix: str = "", processes: int = 1) -> None:
    """Refuse batches that do not fit into the shared memory of this machine.

    Args:
        num_workers: Loader processes of each training process.
        batch: Size of a batch in bytes.
        prefix: What stands before the names of options in the message.
        processes: Training processes on this machine.

    Raises:
        UserError: If it is too small.
    """
    if not _SHARED.is_dir():
        return
    total, _, free = shutil.disk_usage(_SHARED)
    needed, there = num_workers * _AHEAD * batch, min(free, total // processes)
    if needed > there:
        raise UserError(
            f"{prefix}num_workers: {num_workers} loader processes hold {_AHEAD} batches of {batch / 2**20:,.1f} MiB "
            f"each, but {_SHARED} has {there / 2**20:,.1f} MiB for them; lower {prefix}num_workers or "
            f"{prefix}batch_size, or give the container more shared memory (docker run --shm-size)"
        )


def _local(module: TaskDataModule) -> int:
    """Training processes of a module's trainer on this machine."""
    return int(module.trainer.num_devices) if module.trainer else 1
