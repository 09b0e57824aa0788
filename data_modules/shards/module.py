"""Data modules that read shards."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, default_convert

from data_modules.base import DatasetInfo, Split, TrainLoader, process_of
from data_modules.files.remote import Cache, Place, RemotePath, place_of
from data_modules.images.examples import Images, LabeledImages
from data_modules.images.module import ImageDataModule
from data_modules.images.transforms import train_transform
from data_modules.loading.loaders import loader_arguments, train_batching
from data_modules.loading.module import check_least
from data_modules.loading.samplers import Batching
from data_modules.shards.index import INDEX, Shard
from data_modules.shards.reading import ShardImages
from data_modules.shards.streaming import ShardBatches, StreamedShards, StreamLoader
from data_modules.shards.unindexed import read_any_index
from lgx.core.eval_transforms import eval_transform
from lgx.errors import UserError


@dataclass(eq=False, repr=False)
class ShardedImages(ImageDataModule):
    """Base of the data modules that read shards.

    Args:
        in_memory: Draw images at random, so that order and resume are exact for any number of processes; fast where
            the system can keep the shards in memory. False streams them, for larger sets.
    """

    in_memory: bool = True

    def check_options(self) -> None:
        """See :class:`~data_modules.loading.module.DataOptions`; ``root`` must be a local folder."""
        refuse_url(self.root)
        super().check_options()

    @cached_property
    def _index(self) -> tuple[DatasetInfo, dict[Split, list[Shard]]]:
        # Once: of own shards it asks for every file.
        return read_any_index(self.folder, self.val_fraction, self.split_seed)

    def read(self, split: Split) -> Images:
        """See :class:`~data_modules.images.module.ImageDataModule`."""
        _, splits = self._index
        if split not in splits:
            raise UserError(f"{self.info.name}: {self.folder} has no {split} shards, only {', '.join(splits)}")
        where = f"{self.info.name} {split}"
        if not self.in_memory:
            return StreamedShards(splits[split], where)
        images = ShardImages(splits[split], where)
        if all(shard.chosen is None for shard in images.shards):
            return images
        return LabeledImages(images, images.labels[images.chosen], where, images.chosen)

    def content(self, examples: Images) -> Iterable[bytes]:
        """Of streamed shards their checksums, and which of their examples are chosen."""
        if not isinstance(examples, StreamedShards):
            return super().content(examples)
        return (s.sha256.encode() + (b"" if s.chosen is None else s.chosen.tobytes()) for s in examples.shards)

    def nominal_train_size(self) -> int | None:
        """Number of training examples in the index: the set was split when its shards were written."""
        return self.info.sizes[0]

    def train_dataloader(self) -> TrainLoader:
        """Shuffled, augmented batches; the loader can resume in the middle of an epoch."""
        images = self._splits["train"]
        if not isinstance(images, StreamedShards):
            return super().train_dataloader()
        if self.balanced:
            _ = images.labels  # refused
        transform = train_transform(self.task, self.augment, self.pixel_transforms())
        batching = train_batching(self, len(images), self.seed)
        batches = ShardBatches(images, transform, self.info.name, batching)
        return self._stream(batches, self.num_workers, train=True)

    def eval_dataloader(self, split: Split, in_order: bool = False) -> DataLoader[Any]:
        """Every example of a split once.

        A stream that must stay in order is read in this process: several loader processes would interleave their parts.
        """
        images = self._splits[split]
        if not isinstance(images, StreamedShards):
            return super().eval_dataloader(split, in_order)
        rank, world_size = process_of(self)
        batching = Batching(self.evaluation_batch, rank=rank, world_size=world_size)
        batches = ShardBatches(images, eval_transform(self.task), self.info.name, batching, train=False)
        return self._stream(batches, 0 if in_order else self.num_workers, train=False)

    @property
    def predict_indices(self) -> Sequence[int]:
        """See the base class; each rank of a stream reads one contiguous part of it."""
        images = self._splits["test"]
        if not isinstance(images, StreamedShards):
            return super().predict_indices
        rank, world_size = process_of(self)
        return range(len(images) * rank // world_size, len(images) * (rank + 1) // world_size)

    def _stream(self, batches: ShardBatches, num_workers: int, train: bool) -> StreamLoader:
        # Lightning warns of the length of every iterable set, but this length is exact.
        warnings.filterwarnings("ignore", "Your `IterableDataset` has `__len__` defined")
        options = loader_arguments(self, default_convert, batches.batching.batch_size, num_workers)
        return StreamLoader(batches, lambda: self.trainer.current_epoch if self.trainer and train else 0, **options)


@dataclass(eq=False, repr=False)
class ShardedData(ShardedImages):
    """A set written by ``lgx data prepare NAME --shards``, or webdataset shards of your own.

    Args:
        name: Name of the set, or of the folder of its shards below ``root``: ``imagenet`` or ``imagenet_shards``. Own
            shards are ``train*.tar``, ``test*.tar`` and perhaps ``val*.tar``, or in folders of these names, with
            ``jpg`` or ``png`` and ``cls`` (a class index) or ``json`` with ``label``; ``classes.txt`` may name classes.
        root: Folder that contains the data sets, one folder each, or its URL (``s3://…``, ``gs://…``, ``https://…``):
            then ``in_memory`` must be false, and lgx must have written the shards.
        cache_dir: Local folder that keeps shards that were read from a URL; default: each epoch reads them anew.
        cache_dir_gib: Limit of this folder in GiB. The shards that were used least recently are removed.
    """

    name: str = field(kw_only=True)
    cache_dir: str | None = None
    cache_dir_gib: float = 64.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.info, _ = self._index

    def check_options(self) -> None:
        """See :class:`~data_modules.loading.module.DataOptions`."""
        check_least(self, {"cache_dir_gib": 0})
        is_remote = isinstance(self._place, RemotePath)
        if is_remote and self.in_memory:
            raise UserError(
                f"data.root: {self.root} is a URL, from which shards are streamed; add --data.in_memory false"
            )
        if self.cache_dir is not None and not is_remote:
            raise UserError("data.cache_dir: the shards below data.root are on a local disk already; leave it out")
        super(ShardedImages, self).check_options()

    @property
    def _place(self) -> Place:
        cache = Cache(Path(self.cache_dir) / "lgx_shards", int(self.cache_dir_gib * 2**30)) if self.cache_dir else None
        return place_of(self.root, cache)

    @cached_property
    def folder(self) -> Any:
        """Folder of the shards, or what stands for it behind a URL."""
        own = self._place / refuse_url(self.name)
        shards = own.with_name(f"{own.name}_shards")  # where `lgx data prepare` writes them
        if (own / INDEX).exists():
            return own
        return shards if (shards.is_dir() if isinstance(shards, Path) else (shards / INDEX).exists()) else own


def refuse_url(place: str | Path) -> Path:
    """Turn the name of a local folder into a path.

    Raises:
        UserError: If it is a URL.
    """
    if "://" in str(place):
        raise UserError(f"{place}: only local folders of shards are read; give a path, not a URL")
    return Path(place)
