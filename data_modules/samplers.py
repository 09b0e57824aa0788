"""Samplers and loaders whose order is a pure function of (seed, epoch, position).

Nothing but three integers is needed to go on exactly where a killed run stopped, and the *global* batch
does not depend on how many processes share it.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from data_modules.splits import Indices
from lgx.errors import UserError

Key = tuple[int, int]
"""(epoch, index): the index of an example and the epoch that its augmentation is drawn for."""


def mix_seed(*parts: int) -> int:
    """Hash integers into one 32-bit seed.

    Args:
        parts: Any integers, e.g. (seed, epoch, index).

    Returns:
        A seed in [0, 2**32), well spread even where the parts are small and adjacent.
    """
    return int(np.random.SeedSequence([p & 0xFFFFFFFF for p in parts]).generate_state(1)[0])


@contextmanager
def seeded_rng(seed: int) -> Iterator[None]:
    """Seed Python's, NumPy's and torch's CPU generators inside the block and restore them after it."""
    states = random.getstate(), np.random.get_state(), torch.default_generator.get_state()
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.default_generator.set_state(states[2])


def limited(full: int, limit: int | float | None) -> tuple[int, int]:
    """Apply Lightning's ``limit_train_batches``.

    Args:
        full: Batches of an epoch without a limit.
        limit: A number of batches, a share of them, or None.

    Returns:
        The length that a loader should have, to which Lightning applies a share again, and the batches of an epoch.
    """
    if limit is None:
        return full, full
    if isinstance(limit, int):
        return min(full, limit), min(full, limit)
    return full, int(full * limit)


class TrainBatchSampler(Sampler[list[Key]]):
    """Shuffled training batches, equal on any number of processes.

    Batch k of the epoch is ``perm[k * W * B : (k + 1) * W * B]`` of one permutation drawn from
    (seed, epoch); rank r of W takes its r-th part of B examples. An incomplete last global batch is dropped.

    Args:
        num_samples: Number of training examples.
        batch_size: Examples per process and step, B.
        seed: Seed of the order.
        rank: Rank of this process.
        world_size: Number of processes, W.
        limit: At most so many batches per epoch, or that share of them; None for all. A share is applied by Lightning
            to the length of the loader, so here it only tells where an epoch ends.
    """

    def __init__(
        self,
        num_samples: int,
        batch_size: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        limit: int | float | None = None,
    ) -> None:
        self.num_samples, self.batch_size, self.seed = num_samples, batch_size, seed
        self.rank, self.world_size = rank, world_size
        full = num_samples // (batch_size * world_size)
        self.length, self.epoch_length = limited(full, limit)
        self.epoch = 0
        self.resume_at: tuple[int, int] = (0, 0)

    @property
    def sampler(self) -> "TrainBatchSampler":
        """Lightning calls ``batch_sampler.sampler.set_epoch``."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Choose the permutation of this epoch."""
        self.epoch = epoch

    @property
    def start(self) -> int:
        """First batch of the current epoch: 0 unless a state was loaded for just this epoch."""
        epoch, batch = self.resume_at
        return batch if epoch == self.epoch else 0

    def __iter__(self) -> Iterator[list[Key]]:
        epoch, start = self.epoch, self.start
        generator = torch.Generator().manual_seed(mix_seed(self.seed, epoch))
        order = torch.randperm(self.num_samples, generator=generator).tolist()
        for k in range(start, self.length):
            first = (k * self.world_size + self.rank) * self.batch_size
            yield [(epoch, i) for i in order[first : first + self.batch_size]]

    def __len__(self) -> int:
        return self.length


class ResumableLoader(DataLoader[Any]):
    """A DataLoader over a :class:`TrainBatchSampler` that Lightning can stop and resume within an epoch.

    Its state counts the batches handed out, not those that workers fetched ahead.
    """

    batch_sampler: TrainBatchSampler

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        # DataLoader promises its own private iterator type; a generator is all that a caller uses.
        self._epoch, self._batch = self.batch_sampler.epoch, self.batch_sampler.start
        for batch in super().__iter__():
            self._batch += 1
            yield batch

    @property
    def epoch_length(self) -> int:
        """Batches of an epoch, Lightning's limit applied."""
        return self.batch_sampler.epoch_length

    def state_dict(self) -> dict[str, int]:
        """Where the next batch comes from."""
        examples = self.batch_sampler.batch_size * self.batch_sampler.world_size
        return {"epoch": getattr(self, "_epoch", 0), "batch": getattr(self, "_batch", 0), "examples": examples}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on at ``state``; a state at the end of an epoch means the start of the next one.

        Raises:
            UserError: If the run stopped within an epoch with another global batch.
        """
        epoch, batch, examples = state["epoch"], state["batch"], state["examples"]
        own = self.batch_sampler.batch_size * self.batch_sampler.world_size
        if batch >= self.epoch_length:
            epoch, batch = epoch + 1, 0
        if batch and examples != own:
            raise UserError(
                f"data.batch_size: the run stopped within an epoch of global batches of {examples}, not {own}; "
                f"resume with the same batch_size x processes"
            )
        self.batch_sampler.resume_at = (epoch, batch)
        self.batch_sampler.set_epoch(epoch)


def by_length(order: Indices, lengths: Indices, size: int, pool: int, rng: np.random.Generator) -> list[Indices]:
    """Cut shuffled examples into batches of examples of like length.

    The order is cut into pools of ``pool`` batches; the examples of a pool are sorted by length and cut into its
    batches. The batches come in an order drawn anew, only one that is not full stays the last.

    Args:
        order: Shuffled examples, (N,).
        lengths: Length of every example.
        size: Examples of a batch.
        pool: Batches that are sorted together; more waste less padding and mix lengths less.
        rng: Draws the order of the batches.
    """
    batches: list[Indices] = []
    for first in range(0, len(order), pool * size):
        part = order[first : first + pool * size]
        batches += np.split(part[np.argsort(lengths[part], kind="stable")], range(size, len(part), size))
    full = len(order) // size
    return [batches[k] for k in rng.permutation(full)] + batches[full:]


class UnpaddedEvalSampler(Sampler[int]):
    """Every example exactly once over all ranks: rank r takes r, r + W, r + 2W, ...

    Lightning's default repeats examples so that ranks are equally long, which counts 9 examples on
    2 ranks as 10. Metrics that sum their states need no padding.
    """

    def __init__(self, num_samples: int, rank: int = 0, world_size: int = 1) -> None:
        self.indices = range(rank, num_samples, world_size)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)

    def __len__(self) -> int:
        return len(self.indices)


class TransformedImages(Dataset[tuple[torch.Tensor, int]]):
    """Apply a transform to (image, label) examples, with randomness that depends on (seed, epoch, index) alone.

    Args:
        images: Map-style data set of (PIL image, class index).
        transform: PIL image -> float tensor (C, H, W).
        seed: Seed of the augmentation.
        random: Whether the transform draws random numbers at all; seeding costs some 0.1 ms an image.
    """

    def __init__(self, images: Any, transform: Any, seed: int = 0, *, random: bool = False) -> None:
        self.images, self.transform, self.seed, self.random = images, transform, seed, random

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, key: int | Key) -> tuple[torch.Tensor, int]:
        epoch, index = (0, key) if isinstance(key, int) else key
        image, label = self.images[index]
        if not self.random:
            return self.transform(image), label
        with seeded_rng(mix_seed(self.seed, epoch, index)):
            return self.transform(image), label
