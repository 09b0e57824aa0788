"""Images per second of the ways in which training images are read."""

import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import webdataset as wds
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from data_modules import ImageFolderData
from data_modules.images.module import ImageDataModule
from data_modules.loading.samplers import ResumableLoader
from data_modules.shards.module import ShardedData
from data_modules.shards.writing import write_shards

_IMAGES, _PIXELS, _CLASSES = 1024, 128, 8
"""Number of the images, their height and width, and number of classes."""


def measure_loaders(img_size: int, batch: int, num_workers: int, repeats: int) -> list[dict[str, Any]]:
    """Measure how fast batches of random crops and flips of small JPEG images are made.

    - ``torchvision``: the reference: torchvision's ``ImageFolder`` in a DataLoader.
    - ``webdataset``: a plain pipeline of webdataset over one shard.
    - ``folder``, ``shards``: lgx, which decodes each image anew.
    - ``cache``: lgx, with the pixels that were decoded before.

    All of them resize, crop, flip and normalize alike. Each repetition reads all images once in each way.

    Args:
        img_size: Height and width of the inputs.
        batch: Images of a batch.
        num_workers: Loader processes.
        repeats: Repetitions; the fastest counts.

    Returns:
        One row for each way: ``what``, ``seconds`` of a batch, ``ratio`` to the reference, ``peak_mb`` (0: not
        measured) and ``images_per_s``.
    """
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, LGX_CACHE=f"{folder}/cache"):
        root = Path(folder)
        _write(root / "images")
        ways = _ways(root, img_size, batch, num_workers)
        for way in ways.values():
            _drain(way(0))
        rounds = [{what: _drain(way(1 + k)) for what, way in ways.items()} for k in range(repeats)]
    rates = {what: max(times[what] for times in rounds) for what in ways}
    reference = rates["torchvision"]
    return [
        {"what": what, "seconds": batch / rate, "ratio": reference / rate, "peak_mb": 0.0, "images_per_s": rate}
        for what, rate in rates.items()
    ]


Way = Callable[[int], Iterable[Any]]
"""Epoch -> its batches."""


def _ways(root: Path, img_size: int, batch: int, num_workers: int) -> dict[str, Way]:
    options: dict[str, Any] = {
        "img_size": img_size, "batch_size": batch, "num_workers": num_workers, "augment": "crop_flip",
    }  # fmt: skip
    files, kept = (ImageFolderData(root=str(root / "images"), cache_gib=gib, **options) for gib in (0, 1))
    files.setup("fit")
    write_shards(files.examples("train"), root / "shards", "train", files.info)
    write_shards(files.examples("val"), root / "shards", "val", files.info)
    shards = ShardedData(name="shards", root=str(root), cache_gib=0, **options)
    kept.setup("fit")
    shards.setup("fit")
    transform = _transform(files, img_size)
    folder = DataLoader(
        ImageFolder(root / "images" / "train", transform),
        batch_size=batch, shuffle=True, num_workers=num_workers, persistent_workers=num_workers > 0, drop_last=True,
    )  # fmt: skip
    pipeline = (
        wds.WebDataset(sorted(map(str, (root / "shards").glob("train-*.tar"))), shardshuffle=False, empty_check=False)
        .shuffle(1000)
        .decode("pil")
        .to_tuple("jpg", "cls")
        .map_tuple(transform, int)
        .batched(batch, partial=False)
    )
    stream = DataLoader(pipeline, batch_size=None, num_workers=min(num_workers, 2))
    modules = {"folder": files, "shards": shards, "cache": kept}
    return {
        "torchvision": lambda epoch: folder,
        "webdataset": lambda epoch: stream,
        **{what: _epochs(module) for what, module in modules.items()},
    }


def _epochs(module: ImageDataModule) -> Way:
    loader = module.train_dataloader()
    assert isinstance(loader, ResumableLoader)

    def batches(epoch: int) -> Iterable[Any]:
        loader.batch_sampler.set_epoch(epoch)
        return loader

    return batches


def _transform(module: ImageDataModule, img_size: int) -> Any:
    task = module.task
    return v2.Compose([
        v2.Resize(img_size, interpolation=v2.InterpolationMode.BICUBIC), v2.CenterCrop(img_size),
        v2.RandomCrop(img_size, padding=img_size // 8), v2.RandomHorizontalFlip(),
        v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(task.mean, task.std),
    ])  # fmt: skip


def _drain(batches: Iterable[Any]) -> float:
    """Images per second."""
    started, images = time.perf_counter(), 0
    for batch in batches:
        images += len(batch[0])
    return images / (time.perf_counter() - started)


def _write(root: Path) -> None:
    """Write smooth random images, whose JPEG files are about as large as those of photographs of this size."""
    rng = np.random.default_rng(0)
    for split, count in (("train", _IMAGES), ("val", _CLASSES)):
        for k in range(count):
            coarse = Image.fromarray(rng.integers(0, 256, (24, 24, 3), np.uint8))
            folder = root / split / f"class{k % _CLASSES}"
            folder.mkdir(parents=True, exist_ok=True)
            coarse.resize((_PIXELS, _PIXELS), Image.Resampling.BICUBIC).save(folder / f"{k}.jpg", quality=90)
