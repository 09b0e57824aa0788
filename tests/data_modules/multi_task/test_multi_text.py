"""Several text sets in one run: one task per batch, batches of similar lengths."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from data_modules import MultiTask, MultiText
from data_modules.loading.samplers import Batching
from data_modules.multi_task.samplers import TaskBatchSampler
from lgx.errors import UserError
from tests.support.fake_text import SIZE


def several(text_root: Path, **options) -> MultiText:
    made = MultiText(**{
        "tasks": ("cola", "mrpc", "imdb"), "root": str(text_root), "vocab_size": SIZE, "max_len": 40, "batch_size": 4,
        "seed": 3, **options,
    })  # fmt: skip
    made.setup("fit")
    return made


def test_every_batch_is_of_one_text_task_drawn_by_temperature(text_root):
    made = several(text_root, limit_train=16, steps_per_epoch=60)
    task = made.task
    assert (task.kind, task.metric, task.max_len, task.vocab_size) == ("text", "score", 40, SIZE)
    assert list(made.sampling_weights.values()) == pytest.approx([1 / 3] * 3)
    flat = several(text_root, temperature=float("inf"), steps_per_epoch=60)
    seen = Counter(batch.task for batch in flat.train_dataloader())
    assert min(seen.values()) > 10
    assert set(seen) == {"cola", "mrpc", "imdb"}
    for batch in made.train_dataloader():
        assert batch.inputs.shape[0] == len(batch.targets) == 4
        assert batch.inputs[:, 1].any(0).all()  # no column contains padding only


def test_batches_have_like_lengths():
    lengths = {"a": np.random.default_rng(0).integers(3, 60, 370), "b": np.random.default_rng(1).integers(3, 60, 110)}
    sizes = {name: len(found) for name, found in lengths.items()}
    every = np.concatenate([lengths["a"], lengths["b"]])
    batches = TaskBatchSampler(sizes, np.array([0.5, 0.5]), 25, Batching(8, 3), lengths)
    found = [every[[index for _, index in batch]] for batch in batches]
    assert sum(each.sum() for each in found) / sum(8 * each.max() for each in found) > 0.85


def test_image_sets_and_text_sets_cannot_be_mixed(text_root):
    with pytest.raises(UserError, match="cola is a text set, not an image set"):
        MultiTask(tasks=("pocket_digits", "cola"))
    with pytest.raises(UserError, match="pocket_digits is an image set, but a text set is needed: cola"):
        MultiText(tasks=("cola", "pocket_digits"))
