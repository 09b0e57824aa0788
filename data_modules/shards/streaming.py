"""Stream batches from shards, in an order that is a pure function of (seed, epoch, rank, worker).

The examples of an epoch form one virtual sequence: the shards one after the other, in the epoch's order. Every loader
process of every rank reads its own contiguous part of that sequence, which may begin and end within a shard. So nothing
is read twice or left out, every rank has the same number of training batches, and the number of shards does not have to
be a multiple of the number of processes.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

import torch
import webdataset as wds
from torch.utils.data import IterableDataset, get_worker_info

from data_modules.loading.loaders import stacked
from data_modules.loading.samplers import Batching, ResumableLoader, limited, mix_seed
from data_modules.shards.index import Shard
from data_modules.shards.reading import decode, images_in, read_shard, with_image
from lgx.core.batch import Batch
from lgx.core.seed import seeded_rng
from lgx.errors import UserError
from lgx.host.images import ImageReader


class StreamedShards:
    """The shards of one split, in the order of the index, which are not read yet; ``reader`` decodes their images."""

    reader = ImageReader()

    def __init__(self, shards: Sequence[Shard], where: str) -> None:
        self.shards, self.where = list(shards), where

    def __len__(self) -> int:
        return sum(len(shard.rows) for shard in self.shards)

    def sources(self) -> Iterator[bytes]:
        """The bytes of the first images."""
        yield from images_in(sample for shard in self.shards for sample in read_shard(shard))

    @property
    def labels(self) -> Any:
        """Refused: labels are unknown before all shards are read."""
        raise UserError(
            f"{self.where}: a stream has no labels in advance; data.limit_train, data.balanced and model.class_weights "
            f"need data.in_memory: true, and shards in a bucket must first be copied to a local folder"
        )

    def __getitem__(self, index: int) -> Any:
        raise UserError(f"{self.where}: streamed shards have no random access; set data.in_memory: true")


@dataclass(frozen=True)
class Stretch:
    """A part of one shard: ``take`` examples of the split after ``skip`` of them.

    ``first`` is the number of the shard's first example within the split.
    """

    shard: Shard
    skip: int
    take: int
    first: int


def stretches(shards: Sequence[Shard], order: Sequence[int], start: int, length: int) -> list[Stretch]:
    """The parts of shards that are the examples [start, start + length) of the sequence of all shards in ``order``."""
    sizes = [len(shard.rows) for shard in shards]
    firsts = [0, *accumulate(sizes)]
    found, position = [], 0
    for i in order:
        begin, end = max(start, position), min(start + length, position + sizes[i])
        if begin < end:
            found.append(Stretch(shards[i], begin - position, end - begin, firsts[i]))
        position += sizes[i]
    return found


class ShardBatches(IterableDataset[Batch]):
    """Batches of one rank.

    Args:
        source: The shards.
        transform: PIL image -> float tensor (C, H, W).
        task: Name of the task of every batch.
        batching: Size, seed and processes of the batches; the seed is that of order and augmentation.
        train: True for shuffled batches, equally many full ones on every rank; False for every example once, in order.
        buffer: Size of each loader process's shuffle buffer in examples.
    """

    def __init__(
        self,
        source: StreamedShards,
        transform: Callable[[Any], torch.Tensor],
        task: str,
        batching: Batching,
        train: bool = True,
        buffer: int = 1000,
    ) -> None:
        self.source, self.transform, self.task = source, transform, task
        self.batching, self.train, self.buffer = batching, train, buffer
        total, rank, world_size = len(source), batching.rank, batching.world_size
        if train:
            self.num_batches, self.epoch_length = limited(total // batching.global_batch, batching.limit)
            self.length = self.num_batches * batching.batch_size
            self.start = rank * self.length
        else:
            self.start = total * rank // world_size
            self.length = total * (rank + 1) // world_size - self.start
            self.num_batches = self.epoch_length = -(-self.length // batching.batch_size)
        # Shared memory: loader processes that persist over epochs have a copy of everything else.
        self.progress = torch.zeros(2, dtype=torch.int64)
        self.progress.share_memory_()

    def begin(self, epoch: int, batch: int = 0) -> None:
        """Let the next iteration start with batch ``batch`` of ``epoch``."""
        self.progress.copy_(torch.tensor([epoch, batch]))

    def __iter__(self) -> Iterator[Batch]:
        epoch, first_batch = map(int, self.progress.tolist())
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        # The loader asks worker 0 first: after a resume that worker must own the next batch.
        worker = (worker + first_batch) % workers
        own = range(worker, self.num_batches, workers)
        before = sum(len(range(w, self.num_batches, workers)) for w in range(worker))
        size, seed = self.batching.batch_size, self.batching.seed
        start = before * size
        length = min(len(own) * size, self.length - start)
        done = sum(k < first_batch for k in own) * size

        order = list(range(len(self.source.shards)))
        if self.train:
            random.Random(mix_seed(seed, epoch)).shuffle(order)
        samples = self._read(stretches(self.source.shards, order, self.start + start, length))
        if self.train:
            rng = random.Random(mix_seed(seed, epoch, self.batching.rank, worker))
            samples = wds.shuffle(self.buffer, initial=self.buffer, rng=rng)(samples)
        examples = self._decode(islice(samples, done, None), epoch)
        while batch := list(islice(examples, size)):
            yield stacked(self.task, batch)

    def _read(self, parts: Sequence[Stretch]) -> Iterator[tuple[int, dict[str, Any]]]:
        for part in parts:
            rows = part.shard.rows[part.skip : part.skip + part.take]
            numbers = {int(row): part.first + part.skip + k for k, row in enumerate(rows)}
            for row, sample in enumerate(read_shard(part.shard, contents=part.shard.chosen is None)):
                if not numbers:
                    break
                if row in numbers:
                    yield numbers.pop(row), with_image(sample)

    def _decode(self, samples: Iterator[tuple[int, dict[str, Any]]], epoch: int) -> Iterator[tuple[torch.Tensor, int]]:
        for position, sample in samples:
            image, label = decode(sample, self.source.where, self.source.reader)
            with seeded_rng(mix_seed(self.batching.seed, epoch, position)) if self.train else nullcontext():
                pixels = self.transform(image)
            yield pixels, label


class StreamLoader(ResumableLoader):
    """Loader of :class:`ShardBatches` that Lightning can stop and resume within an epoch.

    After a resume the skipped examples are read again, but not decoded. ``epoch`` is called at the start of every
    iteration for the number of the epoch.
    """

    dataset: ShardBatches

    def __init__(self, batches: ShardBatches, epoch: Callable[[], int], **options: Any) -> None:
        super().__init__(batches, batch_size=None, **options)
        self._epoch_of, self._resume_at = epoch, (0, 0)

    def __len__(self) -> int:
        return self.dataset.num_batches

    def _begin(self) -> tuple[int, int]:
        epoch = self._epoch_of()
        batch = self._resume_at[1] if self._resume_at[0] == epoch else 0
        self.dataset.begin(epoch, batch)
        return epoch, batch

    @property
    def epoch_length(self) -> int:
        """Batches of an epoch, Lightning's limit applied."""
        return self.dataset.epoch_length

    @property
    def order(self) -> dict[str, Any]:
        """See :class:`~data_modules.loading.samplers.ResumableLoader`."""
        batches = self.dataset
        size, processes = batches.batching.batch_size, batches.batching.world_size
        return {"batch_size": size, "num_workers": max(self.num_workers, 1), "processes": processes}

    def _refusal(self, name: str, found: int, own: int) -> str:
        return (
            f"{self.dataset.source.where}: the run stopped within an epoch of {name} {found}, not {own}; resume with "
            "the same value, otherwise examples are read twice or never"
        )

    def _resume(self, epoch: int, batch: int) -> None:
        self._resume_at = (epoch, batch)
