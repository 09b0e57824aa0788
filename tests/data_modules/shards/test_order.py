"""Shards that are read one after the other: no duplicate, no gap, an order that can be resumed."""

import itertools
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from data_modules.loading.samplers import Batching
from data_modules.shards import order
from data_modules.shards.module import ShardedData
from data_modules.shards.order import ShardBatchSampler
from tests.support import fake_data


@settings(max_examples=40)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=9), window=st.integers(1, 12), seed=st.integers(0, 9))
def test_each_image_is_drawn_once_near_its_place_in_the_sequence_of_shards(sizes, window, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "WINDOW", window)
        drawn = ShardBatchSampler(sizes, Batching(1)).drawn(torch.Generator().manual_seed(seed)).tolist()
    assert sorted(drawn) == list(range(sum(sizes)))
    shard_of = [k for k, size in enumerate(sizes) for _ in range(size)]
    places = {k: [place for place, image in enumerate(drawn) if shard_of[image] == k] for k in range(len(sizes))}
    assert all(max(found) - min(found) < sizes[k] + 2 * window for k, found in places.items())


def module(root: Path, **options: int) -> ShardedData:
    made = ShardedData(name="toy", root=str(root), in_memory=False, batch_size=3, img_size=8, **options)
    made.setup("fit")
    return made


@pytest.mark.parametrize("workers", [0, 2])
def test_epochs_differ_and_a_resume_continues_exactly(tmp_path, monkeypatch, workers):
    monkeypatch.setattr(order, "WINDOW", 6)
    fake_data.toy_shards(tmp_path / "toy")
    loader = module(tmp_path, num_workers=workers).train_dataloader()
    epochs = []
    for epoch in range(2):
        loader.batch_sampler.set_epoch(epoch)
        epochs.append([b.inputs[:, 0, 0, 0].tolist() for b in loader])
    assert len(epochs[0]) == 23 // 3
    assert epochs[0] != epochs[1]
    for stop in (1, 4):
        list(itertools.islice(loader, stop))
        resumed = module(tmp_path, num_workers=workers).train_dataloader()
        resumed.load_state_dict(loader.state_dict())
        assert [b.inputs[:, 0, 0, 0].tolist() for b in resumed] == epochs[1][stop:]
