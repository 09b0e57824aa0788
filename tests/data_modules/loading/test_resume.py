"""Training data resume exactly: after a saved position come the batches of a run that never stopped."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from data_modules import SST2, ImageFolderData, MultiTask, MultiText, ShardedData, TaskDataModule, TextFiles
from tests.support.fake_data import toy_shards
from tests.support.fake_text import SIZE
from tests.support.images import write_images

IMAGES: dict[str, Any] = {"img_size": 16, "batch_size": 8, "augment": "crop_flip", "seed": 5}
TEXTS: dict[str, Any] = {"vocab_size": SIZE, "max_len": 40, "batch_size": 4, "seed": 3}
KINDS: dict[str, Callable[[Path, Path, int], TaskDataModule]] = {
    "images": lambda images, texts, workers: ImageFolderData(root=str(images), num_workers=workers, **IMAGES),
    "texts": lambda images, texts, workers: SST2(root=str(texts), num_workers=workers, **TEXTS),
    "plain texts": lambda images, texts, workers: TextFiles(
        root=str(texts / "imdb_subset"), tokenizer=str(texts / "gpt2_vocab"), num_workers=workers, **TEXTS
    ),
    "shard after shard": lambda images, texts, workers: ShardedData(
        name="toy", root=str(images.parent), in_memory=False, num_workers=workers, **IMAGES | {"batch_size": 3}
    ),
    "several image sets": lambda images, texts, workers: MultiTask(
        (str(images), str(images.parent / "few")), steps_per_epoch=6, num_workers=workers, **IMAGES
    ),
    "several text sets": lambda images, texts, workers: MultiText(
        ("cola", "mrpc", "imdb"), str(texts), steps_per_epoch=6, num_workers=workers, **TEXTS
    ),
}


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_the_batches_after_a_saved_position_are_those_of_the_whole_epoch(kind, workers, tmp_path, text_root):
    images = write_images(tmp_path / "shapes", {"train": 48, "val": 9})
    write_images(tmp_path / "few", {"train": 6, "val": 3})
    toy_shards(tmp_path / "toy")

    def loader(workers: int = 0) -> Any:
        module = KINDS[kind](images, text_root, workers)
        module.setup("fit")
        return module.train_dataloader()

    whole, stopped, resumed = loader(), loader(workers), loader()
    for each in (whole, stopped):
        each.batch_sampler.set_epoch(1)
    taken = list(islice(stopped, 2))
    resumed.load_state_dict(stopped.state_dict())
    for batch, expected in zip([*taken, *resumed], whole, strict=True):
        assert batch.task == expected.task
        assert torch.equal(batch.inputs, expected.inputs)
        assert torch.equal(batch.targets, expected.targets)
