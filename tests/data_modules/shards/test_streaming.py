"""Streaming from shards: no duplicate, no gap, a reproducible order that can be resumed."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_modules.loading.samplers import Batching
from data_modules.shards.index import Shard, read_index
from data_modules.shards.streaming import ShardBatches, StreamedShards, StreamLoader, stretches
from lgx.errors import UserError
from tests.support import fake_data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_data.toy_shards(tmp_path_factory.mktemp("shards") / "toy")


def stream(folder: Path, split: str = "train", **options: object) -> ShardBatches:
    shards = read_index(folder)[1][split]
    own = {name: options.pop(name) for name in ("train", "buffer") if name in options}
    return ShardBatches(StreamedShards(shards, "toy"), fake_data.number_of, "toy", Batching(**options), **own)


@settings(max_examples=40)
@given(counts=st.lists(st.integers(1, 9), min_size=1, max_size=6), data=st.data())
def test_stretches_cover_the_virtual_sequence_exactly_once(counts: list[int], data: st.DataObject) -> None:
    shards = [Shard(Path(str(i)), n, "") for i, n in enumerate(counts)]
    order = data.draw(st.permutations(range(len(counts))))
    cuts = sorted(data.draw(st.lists(st.integers(0, sum(counts)), max_size=4)))
    found = []
    for a, b in zip([0, *cuts], [*cuts, sum(counts)], strict=True):
        for part in stretches(shards, order, a, b - a):
            found += [part.first + i for i in range(part.skip, part.skip + part.take)]
    starts = np.cumsum([0, *counts])
    assert found == [x for i in order for x in range(starts[i], starts[i + 1])]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=st.integers(1, 5), workers=st.integers(1, 4), batch=st.integers(1, 6))
def test_every_rank_and_worker_together_evaluate_each_example_once(folder, world, workers, batch):
    seen = []
    for rank in range(world):
        batches = stream(folder, "val", batch_size=batch, rank=rank, world_size=world, train=False)
        seen += [x for worker in range(workers) for b in as_worker(batches, worker, workers) for x in b.inputs.tolist()]
    assert sorted(seen) == list(range(9))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=st.integers(1, 3), workers=st.integers(1, 3), batch=st.integers(1, 4), epoch=st.integers(0, 2))
def test_training_gives_every_rank_as_many_full_batches_and_no_example_twice(folder, world, workers, batch, epoch):
    seen, counts = [], set()
    for rank in range(world):
        batches = stream(folder, batch_size=batch, rank=rank, world_size=world, seed=3, buffer=6)
        batches.begin(epoch)
        own = [b for worker in range(workers) for b in as_worker(batches, worker, workers)]
        assert all(len(b.targets) == batch for b in own)
        counts.add(len(own))
        seen += [x for b in own for x in b.inputs.tolist()]
    assert counts == {23 // (batch * world)}
    assert len(set(seen)) == len(seen)


def as_worker(batches: ShardBatches, worker: int, workers: int) -> list[object]:
    """The examples that one worker yields, without starting a process."""
    import torch.utils.data._utils.worker as module

    info = module.WorkerInfo(id=worker, num_workers=workers, seed=0, dataset=batches)
    module._worker_info = info
    try:
        return list(batches)
    finally:
        module._worker_info = None


def test_the_order_depends_on_seed_and_epoch_alone(folder: Path) -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        batches = stream(folder, batch_size=4, seed=seed, buffer=8)
        return [b.inputs.tolist() for b in StreamLoader(batches, lambda: epoch)]

    assert order(0, 0) == order(0, 0)
    assert len({str(order(*key)) for key in ((0, 0), (0, 1), (1, 0))}) == 3


@pytest.mark.parametrize("workers", [0, 2])
def test_persistent_workers_see_the_epoch_and_resume_exactly(folder: Path, workers: int) -> None:
    epoch = 0
    options = {"num_workers": workers, "persistent_workers": workers > 0}
    loader = StreamLoader(stream(folder, batch_size=3, buffer=8), lambda: epoch, **options)
    assert len(loader) == 7
    first = [b.inputs.tolist() for b in loader]
    epoch = 1
    second = [b.inputs.tolist() for b in loader]
    assert first != second

    for stop in (0, 2, 3):
        iterator = iter(loader)
        for _ in range(stop):
            next(iterator)
        state = loader.state_dict() if stop else {"epoch": 1, "batch": 0}
        del iterator
        resumed = StreamLoader(stream(folder, batch_size=3, buffer=8), lambda: epoch, num_workers=workers)
        resumed.load_state_dict(state)
        assert [b.inputs.tolist() for b in resumed] == second[stop:]


@pytest.mark.parametrize(
    ("option", "other"),
    [("batch_size", {"batch_size": 2}), ("processes", {"world_size": 2}), ("num_workers", {})],
)
def test_an_epoch_cannot_be_resumed_in_another_order(folder: Path, option: str, other: dict[str, int]) -> None:
    loader = StreamLoader(stream(folder, batch_size=3, buffer=8), lambda: 0)
    next(iter(loader))
    changed = {"batch_size": 3, "buffer": 8, **other}
    resumed = StreamLoader(stream(folder, **changed), lambda: 0, num_workers=2 if option == "num_workers" else 0)
    with pytest.raises(UserError, match=f"toy: the run stopped within an epoch of {option} "):
        resumed.load_state_dict(loader.state_dict())
    resumed.load_state_dict(
        {**loader.state_dict(), "batch": resumed.epoch_length}
    )  # after its end any order may follow
