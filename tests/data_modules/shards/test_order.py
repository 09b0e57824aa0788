"""The order of shards that are read one after the other: no duplicate, no gap."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from data_modules.loading.samplers import Batching
from data_modules.shards import order
from data_modules.shards.order import ShardBatchSampler


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
