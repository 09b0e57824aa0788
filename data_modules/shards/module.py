"""Data modules that read shards."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from data_modules.base import DatasetInfo, Split
from data_modules.files.remote import RemotePath, place_of
from data_modules.images.examples import Images
from data_modules.images.module import ImageDataModule
from data_modules.loading.module import check_least
from data_modules.loading.samplers import Batching, TrainBatchSampler
from data_modules.shards.index import INDEX, Shard
from data_modules.shards.order import ShardBatchSampler
from data_modules.shards.reading import ShardImages
from data_modules.shards.unindexed import read_any_index
from lgx.errors import UserError


@dataclass(eq=False, repr=False)
class ShardedImages(ImageDataModule):
    """Base of the data modules that read shards.

    Args:
        in_memory: Draw images from all shards at random; fast where the system can keep the shards in memory. False
            reads the shards one after the other in random order, and shuffles images within some 8,000.
    """

    in_memory: bool = True

    @cached_property
    def _index(self) -> tuple[DatasetInfo, dict[Split, list[Shard]]]:
        # Once: of own shards it asks for every file.
        return read_any_index(self.folder, self.val_fraction, self.split_seed)

    def read(self, split: Split) -> Images:
        """See :class:`~data_modules.images.module.ImageDataModule`."""
        _, splits = self._index
        if split not in splits:
            raise UserError(f"{self.info.name}: {self.folder} has no {split} shards, only {', '.join(splits)}")
        images = ShardImages(splits[split], f"{self.info.name} {split}")
        if self.in_memory:
            np.asarray(images.labels)  # damaged shards are refused before training, and processes share the tables
        return images

    def content(self, examples: Images) -> Iterable[bytes]:
        """Of whole splits the checksums of the shards, and which of their examples are chosen."""
        if not isinstance(examples, ShardImages):
            return super().content(examples)
        return (s.sha256.encode() + (b"" if s.chosen is None else s.chosen.tobytes()) for s in examples.shards)

    @property
    def has_class_counts(self) -> bool:
        """See :class:`~data_modules.base.TaskDataModule`."""
        return self.in_memory and super().has_class_counts

    def nominal_train_size(self) -> int | None:
        """Number of training examples in the index: the set was split when its shards were written."""
        return self.info.sizes[0]

    def train_sampler(self, examples: Images, batching: Batching) -> TrainBatchSampler:
        """See :class:`~data_modules.images.module.ImageDataModule`."""
        if self.in_memory or self.balanced or not isinstance(examples, ShardImages):
            return super().train_sampler(examples, batching)
        return ShardBatchSampler(examples.sizes, batching)


@dataclass(eq=False, repr=False)
class ShardedData(ShardedImages):
    """A set written by ``lgx data prepare NAME --shards``, or webdataset shards of your own.

    Args:
        name: Name of the set, or of the folder of its shards below ``root``: ``imagenet`` or ``imagenet_shards``. Own
            shards are ``train*.tar``, ``test*.tar`` and perhaps ``val*.tar``, or in folders of these names, with
            ``jpg`` or ``png`` and ``cls`` (a class index) or ``json`` with ``label``; ``classes.txt`` may name classes.
        root: Folder that contains the data sets, one folder each, or its URL (``s3://…``, ``gs://…``, ``https://…``):
            then ``in_memory`` must be false, and lgx must have written the shards.
        shard_cache_gib: Limit in GiB of the local copies of shards behind a URL, in ``$LGX_CACHE`` or ``~/.cache/lgx``.
            Those that were used least recently are removed.
    """

    name: str = field(kw_only=True)
    shard_cache_gib: float = 64.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.info, _ = self._index

    def check_options(self) -> None:
        """See :class:`~data_modules.loading.module.DataOptions`."""
        check_least(self, {"shard_cache_gib": 0})
        if isinstance(self.root_folder, RemotePath) and self.in_memory:
            raise UserError(
                f"data.root: {self.root_folder} is a URL, whose shards are read one after the other; add "
                f"--data.in_memory false"
            )
        super().check_options()

    @property
    def root_folder(self) -> Any:
        """``root`` as a path, or what stands for it behind a URL."""
        place = place_of(self.root)
        return place if isinstance(place, Path) else replace(place, limit=int(self.shard_cache_gib * 2**30))

    @cached_property
    def folder(self) -> Any:
        """Folder of the shards, or what stands for it behind a URL."""
        named = self.root_folder / self.name
        shards = named.with_name(f"{named.name}_shards")  # where `lgx data prepare` writes them
        if (named / INDEX).exists():
            return named
        return shards if (shards.is_dir() if isinstance(shards, Path) else (shards / INDEX).exists()) else named
