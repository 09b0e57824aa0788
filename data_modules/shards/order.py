"""The order of training images in which shards are read one after the other."""

from collections.abc import Sequence

import torch

from data_modules.loading.samplers import Batching, TrainBatchSampler

WINDOW = 8192
"""Largest distance by which an image is moved from its place in the sequence of all shards."""


class ShardBatchSampler(TrainBatchSampler):
    """Shuffled training batches for which only a few shards are read at a time.

    The images of an epoch are those of one shard after the other, in random order of the shards, and each image is
    moved ahead by at most :data:`WINDOW` places.

    Args:
        sizes: Examples of each shard.
        batching: Size, seed and processes of the batches.
    """

    def __init__(self, sizes: Sequence[int], batching: Batching) -> None:
        super().__init__(sum(sizes), batching)
        self.sizes = sizes

    def drawn(self, generator: torch.Generator) -> torch.Tensor:
        """See :class:`TrainBatchSampler`."""
        shards = torch.arange(self.num_samples).split(list(self.sizes))
        sequence = torch.cat([shards[k] for k in torch.randperm(len(shards), generator=generator).tolist()])
        moved = torch.rand(self.num_samples, generator=generator, dtype=torch.float64) * WINDOW
        return sequence[(torch.arange(self.num_samples) + moved).argsort()]
