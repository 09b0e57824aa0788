"""The order depends only on seed, epoch and position, for any number of processes."""

from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from data_modules.loading.samplers import (
    BalancedBatchSampler,
    Batching,
    LengthBatchSampler,
    ResumableLoader,
    TrainBatchSampler,
    limited,
    unpadded_share,
)
from data_modules.shards import order
from data_modules.shards.order import ShardBatchSampler
from data_modules.splits import stratified_order, stratified_split
from lgx.errors import UserError
from tests.support.extras import import_transformers

worlds = st.integers(1, 5)


KINDS = {
    "all": TrainBatchSampler,
    "balanced": lambda n, batching: BalancedBatchSampler(np.arange(n) % 3, np.bincount(np.arange(n) % 3), batching),
    "similar lengths": lambda n, batching: import_transformers() and LengthBatchSampler(np.arange(n) % 50, batching),
    "shard after shard": lambda n, batching: ShardBatchSampler([n // 2, n - n // 2], batching),
}


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(1, 200), st.integers(1, 9), worlds, st.integers(0, 3), st.integers(0, 9))
def test_the_global_batch_does_not_depend_on_the_number_of_processes(kind, n, batch, world, epoch, seed):
    whole = KINDS[kind](n, Batching(batch * world, seed))
    parts = [KINDS[kind](n, Batching(batch, seed, rank, world)) for rank in range(world)]
    for sampler in (whole, *parts):
        sampler.set_epoch(epoch)
    joined = [list(chain(*step)) for step in zip(*parts, strict=True)]
    assert joined == list(whole)
    seen = [index for step in joined for _, index in step]
    assert len(seen) == n // (batch * world) * batch * world
    assert kind == "balanced" or len(set(seen)) == len(seen)


@pytest.mark.parametrize("kind", KINDS)
def test_each_seed_and_each_epoch_has_its_own_order(kind):
    orders = set()
    for seed, epoch in ((3, 0), (4, 0), (3, 1)):
        sampler = KINDS[kind](103, Batching(8, seed))
        sampler.set_epoch(epoch)
        orders.add(tuple(index for batch in sampler for _, index in batch))
    assert len(orders) == 3


@given(st.integers(0, 50), worlds)
@example(9, 2)
def test_evaluation_sees_every_example_exactly_once(n, world):
    shares = [list(unpadded_share(n, rank, world)) for rank in range(world)]
    assert sorted(chain(*shares)) == list(range(n))


@given(st.lists(st.integers(1, 300), min_size=2, max_size=5), worlds, st.integers(0, 9))
def test_balanced_batches_have_every_class_equally_often(counts, batch, seed):
    labels = np.repeat(np.arange(len(counts)), counts)
    batches = BalancedBatchSampler(labels, counts, Batching(batch, seed))
    drawn = np.bincount(labels[[index for step in batches for _, index in step]], minlength=len(counts))
    expected = drawn.sum() / len(counts)
    assert np.abs(drawn - expected).max() <= 6 * expected**0.5 + 1


@pytest.mark.parametrize(("limit", "expected"), [(None, (12, 12)), (5, (5, 5)), (0.5, (12, 6)), (50, (12, 12))])
def test_limits_are_applied_once(limit, expected):
    assert limited(12, limit) == expected


def test_resuming_within_an_epoch_with_another_batch_is_refused():
    loader = ResumableLoader(range(20), batch_sampler=TrainBatchSampler(20, Batching(4)))
    state = {"epoch": 0, "batch": 2, "examples": 8}
    with pytest.raises(UserError, match="global batches of 8, not 4"):
        loader.load_state_dict(state)
    loader.load_state_dict({**state, "batch": 5})  # at the end of an epoch the batch size may change


def test_batches_are_parts_of_the_permutation_of_seed_and_epoch_from_where_a_run_stopped():
    sampler = TrainBatchSampler(20, Batching(3, seed=-7, rank=1, world_size=2))
    sampler.set_epoch(4)
    seed = int(np.random.SeedSequence([2**32 - 7, 4]).generate_state(1)[0])
    order = torch.randperm(20, generator=torch.Generator().manual_seed(seed)).tolist()
    expected = [[(4, i) for i in order[6 * k + 3 : 6 * k + 6]] for k in range(3)]
    assert list(sampler) == expected
    sampler.resume_at = (4, 2)
    assert list(sampler) == expected[2:]
    sampler.resume_at = (3, 2)  # another epoch
    assert list(sampler) == expected
    loader = ResumableLoader(range(20), batch_sampler=sampler)
    for batch, place in ((3, (5, 0)), (2, (4, 2))):  # an epoch has three batches
        loader.load_state_dict({"epoch": 4, "batch": batch, "examples": 6})
        assert (sampler.resume_at, sampler.epoch) == (place, place[0])


def test_held_out_examples_follow_the_largest_remainders_and_leave_one_of_each_class():
    labels = [0] * 10 + [1] * 5 + [2]
    for fraction, held in ((0.25, [3, 1, 0]), (0.5, [5, 3, 0]), (0.45, [5, 2, 0]), (0.9, [9, 4, 0])):
        out = stratified_split(labels, fraction, seed=0)[1]
        assert np.bincount(np.asarray(labels)[out], minlength=3).tolist() == held
    first = np.asarray(labels)[stratified_order(labels, seed=0)[:9]]
    assert np.bincount(first, minlength=3).tolist() in ([5, 3, 1], [6, 2, 1])


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
