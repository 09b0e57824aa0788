"""Batches of several tasks, one task each, in an order that is a pure function of (seed, step)."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset

from data_modules.loading.samplers import (
    Batching,
    Key,
    ResumableLoader,
    TrainBatchSampler,
    length_order,
    mix_seed,
    unpadded_share,
)
from data_modules.splits import Indices
from lgx.errors import UserError

_DRAWS, _ORDER, AUGMENT = range(3)  # part of a seed, so that streams have different random numbers


def task_weights(sizes: Sequence[int], temperature: float) -> NDArray[np.float64]:
    """Probability of each task, proportional to (N_t / sum N)^(1/T), N_t its training examples, at least 1.

    T = 1 draws by size, infinity draws uniformly.
    """
    # The largest weight is 1, so that a low temperature cannot make all of them 0.
    logs = np.log(np.asarray(sizes, np.float64))
    weights = np.exp((logs - logs.max()) / temperature)
    return np.asarray(weights / weights.sum())


def draw_tasks(weights: NDArray[np.float64], steps: int, seed: int) -> Indices:
    """Index of the task of every step, (steps,). The draw of fewer steps is the beginning of the draw of more steps."""
    uniform = np.random.default_rng(mix_seed(seed, _DRAWS)).random(steps)
    drawn = np.searchsorted(weights.cumsum(), uniform, side="right")
    return np.minimum(drawn, len(weights) - 1)  # rounding may leave the last sum below 1


class TaskBatchSampler(TrainBatchSampler):
    """Training batches of one task each, the same global batches on any number of processes.

    The examples of a task form an endless stream: one permutation after the other. The task that a step draws gives
    the next W * B examples of its stream, even if a pass ends among them, and rank r of W takes its r-th part of B.
    Steps count over all epochs, so that a pass over a task continues from one epoch to the next.

    Args:
        sizes: Training examples per task name; the examples of a task are numbered after those of the task before it.
        weights: Probability of each task, in the order of ``sizes``.
        steps: Batches of an epoch.
        batching: Size, seed and processes of the batches.
        lengths: Length of each example of every task: a pass then consists of groups of W * B examples of similar
            length.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        weights: NDArray[np.float64],
        steps: int,
        batching: Batching,
        lengths: Mapping[str, Indices] | None = None,
    ) -> None:
        super().__init__(sum(sizes.values()), batching, steps)
        self.sizes = list(sizes.values())
        self.weights = weights
        self.seeds = [mix_seed(batching.seed, _ORDER, name) for name in sizes]
        self.lengths = [lengths[name] for name in sizes] if lengths else None
        self.offsets = np.cumsum([0, *self.sizes])
        self._orders: dict[int, tuple[int, Indices]] = {}

    def __iter__(self) -> Iterator[list[Key]]:
        begin = self.epoch * self.epoch_length
        tasks = draw_tasks(self.weights, begin + self.length, self.batching.seed)
        start = begin + self.start
        drawn = np.bincount(tasks[:start], minlength=len(self.sizes))
        for task in tasks[start:].tolist():
            first = (int(drawn[task]) * self.batching.world_size + self.batching.rank) * self.batching.batch_size
            drawn[task] += 1
            yield [self._key(task, position) for position in range(first, first + self.batching.batch_size)]

    def _key(self, task: int, position: int) -> Key:
        number, place = divmod(position, self.sizes[task])
        last_epoch, order = self._orders.get(task, (-1, None))
        if last_epoch != number or order is None:
            if self.lengths is None:
                order = np.random.default_rng([self.seeds[task], number]).permutation(self.sizes[task])
            else:
                generator = torch.Generator().manual_seed(mix_seed(self.seeds[task], number))
                order = np.array(length_order(self.lengths[task], self.batching.global_batch, generator))
            self._orders[task] = number, order
        return number, int(self.offsets[task] + order[place])


def eval_batches(sizes: Sequence[int], batch_size: int, rank: int = 0, world_size: int = 1) -> list[list[int]]:
    """Batches of one task each, in the order of the tasks; every example exactly once over all ranks.

    The examples of a task, so many as ``sizes`` says, are numbered after those of the task before it. The last batch of
    a task may have fewer than ``batch_size`` examples.
    """
    batches = []
    offset = 0
    for size in sizes:
        share = [offset + index for index in unpadded_share(size, rank, world_size)]
        batches += [share[first : first + batch_size] for first in range(0, len(share), batch_size)]
        offset += size
    return batches


class TaskExamples(ConcatDataset[Any]):
    """The examples of several tasks one after the other, each with the number of its task."""

    def __getitems__(self, keys: Sequence[int | Key]) -> list[tuple[torch.Tensor, Any, int]]:
        """The examples of a batch, which are of one task."""
        first = keys[0] if isinstance(keys[0], int) else keys[0][1]
        task = bisect_right(self.cumulative_sizes, first)
        part: Any = self.datasets[task]
        start = self.cumulative_sizes[task] - len(part)
        places = [key - start if isinstance(key, int) else (key[0], key[1] - start) for key in keys]
        return [(image, label, task) for image, label in part.__getitems__(places)]


class TaskLoader(ResumableLoader):
    """A :class:`~data_modules.loading.samplers.ResumableLoader` over a :class:`TaskBatchSampler`.

    The steps that determine the batches count over all epochs, so that a state is valid only for epochs of one length.
    """

    def state_dict(self) -> dict[str, int]:
        """The position of the next batch."""
        return super().state_dict() | {"steps_per_epoch": self.epoch_length}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """See the base class; the run's epochs must also have had the same length."""
        steps = state.get("steps_per_epoch")
        if steps != self.epoch_length:
            raise UserError(
                f"data.steps_per_epoch: the run had epochs of {steps} steps, not {self.epoch_length}; resume with the "
                "same data.steps_per_epoch (or tasks, batch_size x processes) and trainer.limit_train_batches"
            )
        super().load_state_dict(state)
