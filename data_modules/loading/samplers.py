"""Samplers and loaders whose order is a pure function of (seed, epoch, position).

Three integers are enough to continue exactly where a killed run stopped, and the global batch does not depend on the
number of processes that share it.
"""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from data_modules.library_internals import until_error
from data_modules.splits import Indices
from lgx.core.seed import seeded_rng
from lgx.errors import UserError

Key = tuple[int, int]
"""(epoch, index): the index of an example, and the epoch for which its augmentation is drawn."""


def mix_seed(*parts: int | str) -> int:
    """Hash integers and names, e.g. (seed, epoch, index), into one seed in [0, 2**32), well spread if adjacent, too."""
    numbers = [zlib.crc32(part.encode()) if isinstance(part, str) else part & 0xFFFFFFFF for part in parts]
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def limited(full: int, limit: int | float | None) -> tuple[int, int]:
    """Apply Lightning's ``limit_train_batches``, a number of batches or a share of the ``full`` epoch.

    Returns:
        The length of the loader, to which Lightning applies a share itself, and the batches of an epoch.
    """
    if limit is None:
        return full, full
    if isinstance(limit, int):
        return min(full, limit), min(full, limit)
    return full, int(full * limit)


@dataclass(frozen=True)
class Batching:
    """How the training examples of an epoch become batches on every process.

    Attributes:
        batch_size: Examples per process and step, B.
        seed: Seed of the order.
        rank: Rank of this process.
        world_size: Number of processes, W.
        limit: Lightning's ``limit_train_batches``: a number of batches per epoch, or a share; None for all. Lightning
            applies a share to the loader's length, so here it only determines the end of an epoch.
    """

    batch_size: int
    seed: int = 0
    rank: int = 0
    world_size: int = 1
    limit: int | float | None = None

    @property
    def global_batch(self) -> int:
        """Examples of a step on all processes, W * B."""
        return self.batch_size * self.world_size


class TrainBatchSampler(Sampler[list[Key]]):
    """Shuffled training batches, the same global batches on any number of processes.

    Batch k of the epoch is ``perm[k * W * B : (k + 1) * W * B]`` of one permutation drawn from
    (seed, epoch); rank r of W takes its r-th part of B. An incomplete last global batch is dropped.

    Args:
        num_samples: Number of training examples.
        batching: Size, seed and processes of the batches.
        steps: Batches of an epoch without a limit; default as many as the examples fill.
    """

    def __init__(self, num_samples: int, batching: Batching, steps: int | None = None) -> None:
        self.num_samples, self.batching = num_samples, batching
        full = num_samples // batching.global_batch if steps is None else steps
        self.length, self.epoch_length = limited(full, batching.limit)
        self.epoch = 0
        self.resume_at: tuple[int, int] = (0, 0)

    @property
    def sampler(self) -> "TrainBatchSampler":
        """Itself: Lightning calls ``batch_sampler.sampler.set_epoch``."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Choose the permutation of this epoch."""
        self.epoch = epoch

    @property
    def start(self) -> int:
        """First batch of the current epoch: 0 unless a state of this epoch was loaded."""
        epoch, batch = self.resume_at
        return batch if epoch == self.epoch else 0

    def __iter__(self) -> Iterator[list[Key]]:
        epoch = self.epoch
        start = self.start
        size = self.batching.batch_size
        order = self.drawn(torch.Generator().manual_seed(mix_seed(self.batching.seed, epoch))).tolist()
        for k in range(start, self.length):
            first = (k * self.batching.world_size + self.batching.rank) * size
            yield [(epoch, i) for i in order[first : first + size]]

    def __len__(self) -> int:
        return self.length

    def drawn(self, generator: torch.Generator) -> torch.Tensor:
        """The examples of an epoch in order, (N,)."""
        return torch.randperm(self.num_samples, generator=generator)


class BalancedBatchSampler(TrainBatchSampler):
    """Training batches that are drawn with replacement, all classes equally often; ``counts`` are their examples."""

    def __init__(self, labels: Indices, counts: Sequence[int], batching: Batching) -> None:
        super().__init__(len(labels), batching)
        self.weights = torch.as_tensor(counts, dtype=torch.float64).reciprocal()[torch.as_tensor(labels)]

    def drawn(self, generator: torch.Generator) -> torch.Tensor:
        """See :class:`TrainBatchSampler`."""
        return torch.multinomial(self.weights, self.num_samples, replacement=True, generator=generator)


class LengthBatchSampler(TrainBatchSampler):
    """Shuffled training batches of examples of similar length, see :func:`length_order`."""

    def __init__(self, lengths: Indices, batching: Batching) -> None:
        super().__init__(len(lengths), batching)
        self.lengths = lengths

    def drawn(self, generator: torch.Generator) -> torch.Tensor:
        """See :class:`TrainBatchSampler`."""
        return torch.tensor(length_order(self.lengths, self.batching.global_batch, generator))


class ResumableLoader(DataLoader[Any]):
    """A DataLoader over a :class:`TrainBatchSampler` that Lightning can stop and resume within an epoch.

    Its state counts used batches, not batches that loader processes have prefetched.
    """

    batch_sampler: TrainBatchSampler
    _epoch, _batch = 0, 0

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        # DataLoader declares its own private iterator type; callers need only a generator.
        self._epoch, self._batch = self.batch_sampler.epoch, self.batch_sampler.start
        for batch in until_error(self, super().__iter__()):
            self._batch += 1
            yield batch

    @property
    def epoch_length(self) -> int:
        """Batches of an epoch, Lightning's limit applied."""
        return self.batch_sampler.epoch_length

    def state_dict(self) -> dict[str, int]:
        """The position of the next batch."""
        return {"epoch": self._epoch, "batch": self._batch, "examples": self.batch_sampler.batching.global_batch}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue at ``state``; a state at the end of an epoch is the start of the next one.

        Raises:
            UserError: If the run stopped within an epoch of another global batch.
        """
        sampler = self.batch_sampler
        is_over = state["batch"] >= self.epoch_length
        epoch, batch = (state["epoch"] + 1, 0) if is_over else (state["epoch"], state["batch"])
        if batch and state["examples"] != sampler.batching.global_batch:
            raise UserError(
                f"data.batch_size: the run stopped within an epoch of global batches of {state['examples']}, not "
                f"{sampler.batching.global_batch}; resume with the same batch_size x processes"
            )
        sampler.resume_at = (epoch, batch)
        sampler.set_epoch(epoch)


def length_order(lengths: Indices, size: int, generator: torch.Generator) -> list[int]:
    """A shuffled order whose batches of ``size`` examples have similar lengths, that of transformers' trainer."""
    from transformers.trainer_pt_utils import LengthGroupedSampler

    return list(LengthGroupedSampler(size, lengths=lengths.tolist(), generator=generator))


def unpadded_share(num_samples: int, rank: int = 0, world_size: int = 1) -> range:
    """The examples that rank r of W evaluates, r, r + W, r + 2W, ...: every example exactly once over all ranks.

    Lightning's default repeats examples to give all ranks equal numbers: 9 examples on 2 ranks count as 10. Metrics
    that sum their states over ranks need no such padding.
    """
    return range(rank, num_samples, world_size)


class TransformedExamples(Dataset[tuple[torch.Tensor, int]]):
    """Applies a transform to labeled examples; randomness depends only on (seed, epoch, index).

    Args:
        examples: Map-style data set of (PIL image or token ids, class index).
        transform: Makes the input tensor of an example, e.g. PIL image -> float tensor (C, H, W).
        seed: Seed of the augmentation.
        random: Whether the transform draws random numbers; seeding costs about 0.1 ms per image.
        joint: Whether the transform gets and gives the label, too, which is then a mask.
    """

    def __init__(
        self, examples: Any, transform: Any, seed: int = 0, *, random: bool = False, joint: bool = False
    ) -> None:
        self.examples, self.transform, self.seed, self.random, self.joint = examples, transform, seed, random, joint

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, key: int | Key) -> tuple[torch.Tensor, int]:
        epoch, index = (0, key) if isinstance(key, int) else key
        example, label = self.examples[index]
        with seeded_rng(mix_seed(self.seed, epoch, index)) if self.random else nullcontext():
            return self.transform(example, label) if self.joint else (self.transform(example), label)

    def __getitems__(self, keys: Sequence[int | Key]) -> list[tuple[torch.Tensor, Any]]:
        """The examples of a batch; DataLoader calls it instead of one call per example."""
        return [self[key] for key in keys]
