"""Several tasks, one per batch: drawn by the paper's rule, identical for any number of processes."""

from collections import Counter
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from data_modules import MultiTask, PocketDecathlon
from data_modules.loading.samplers import Batching
from data_modules.multi_task.samplers import TaskBatchSampler, draw_tasks, eval_batches, task_weights
from lgx.errors import UserError
from tests.support.extras import import_transformers
from tests.support.images import write_images

sizes = st.lists(st.integers(1, 40), min_size=1, max_size=4)
worlds = st.integers(1, 4)


def sampler(counts, batch, seed=0, rank=0, world=1, steps=30, by_length=False) -> TaskBatchSampler:
    named = {f"task{k}": n for k, n in enumerate(counts)}
    lengths = {name: np.arange(n) for name, n in named.items()} if by_length and import_transformers() else None
    return TaskBatchSampler(named, task_weights(counts, 2.0), steps, Batching(batch, seed, rank, world), lengths)


orders = pytest.mark.parametrize("by_length", [False, True])


def task_of(counts, batch) -> int:
    """Index of the task that all keys of a batch belong to."""
    (task,) = {int(np.searchsorted(np.cumsum(counts), index, side="right")) for _, index in batch}
    return task


COUNTS = (9000, 1258, 647, 120)


@pytest.mark.parametrize("temperature", [1.0, 2.0, float("inf")])
def test_tasks_are_drawn_as_often_as_the_rule_says(temperature):
    raw = np.array([(n / sum(COUNTS)) ** (1 / temperature) for n in COUNTS])
    expected = raw / raw.sum()
    weights = task_weights(COUNTS, temperature)
    np.testing.assert_allclose(weights, expected, rtol=1e-12)
    drawn = np.bincount(draw_tasks(weights, 20_000, seed=3), minlength=4)
    assert chisquare(drawn, 20_000 * expected).pvalue > 0.01


def test_draws_differ_by_seed_and_continue_over_epochs():
    first, second = (sampler((30, 30), 4, seed, steps=50) for seed in (0, 1))
    tasks = [[task_of((30, 30), batch) for batch in part] for part in (first, second)]
    assert tasks[0] != tasks[1]
    first.set_epoch(1)
    later = [task_of((30, 30), batch) for batch in first]
    assert tasks[0] + later == draw_tasks(first.weights, 100, 0).tolist()


@orders
@given(sizes, st.integers(1, 9), worlds, st.integers(0, 2), st.integers(0, 9))
def test_the_global_batch_does_not_depend_on_the_number_of_processes(by_length, counts, batch, world, epoch, seed):
    whole = sampler(counts, batch * world, seed, steps=8, by_length=by_length)
    parts = [sampler(counts, batch, seed, rank, world, steps=8, by_length=by_length) for rank in range(world)]
    for each in (whole, *parts):
        each.set_epoch(epoch)
    steps = list(zip(*parts, strict=True))
    assert [list(chain(*step)) for step in steps] == list(whole)
    for step in steps:
        assert len({task_of(counts, part) for part in step}) == 1


@orders
@given(sizes, st.integers(1, 50), st.integers(0, 9))
def test_every_pass_over_a_task_sees_every_example_once(by_length, counts, batch, seed):
    one = sampler(counts, batch, seed, steps=15, by_length=by_length)
    streams: dict[int, list[tuple[int, int]]] = {}
    for epoch in range(2):
        one.set_epoch(epoch)
        for keys in one:
            assert len(keys) == batch
            streams.setdefault(task_of(counts, keys), []).extend(keys)
    firsts = np.cumsum([0, *counts])
    for task, stream in streams.items():
        n = counts[task]
        for number in range(len(stream) // n):
            keys = stream[number * n : (number + 1) * n]
            assert {p for p, _ in keys} == {number}
            assert sorted(i for _, i in keys) == list(range(firsts[task], firsts[task] + n))
        rest = stream[len(stream) // n * n :]
        assert len(set(rest)) == len(rest)


def test_the_passes_of_a_task_differ_in_order_and_do_not_depend_on_the_other_tasks():
    alone = [index for keys in sampler((20,), 20, steps=2) for _, index in keys]
    assert alone[:20] != alone[20:]
    both = [keys for keys in sampler((20, 5), 20, steps=20) if task_of((20, 5), keys) == 0]
    assert [index for keys in both[:2] for _, index in keys] == alone


@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(1, 9), worlds)
def test_evaluation_sees_every_example_exactly_once_task_by_task(counts, batch, world):
    parts = [eval_batches(counts, batch, rank, world) for rank in range(world)]
    assert sorted(index for part in parts for keys in part for index in keys) == list(range(sum(counts)))
    for batches in parts:
        tasks = [task_of(counts, [(0, index) for index in keys]) for keys in batches]
        assert tasks == sorted(tasks)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Root with the pocket digits, and folders of two custom sets: one tiny, one of 48 images."""
    root = tmp_path_factory.mktemp("multi")
    PocketDecathlon(task="digits", root=str(root)).prepare_data()
    write_images(root / "few", {"train": 6, "val": 3, "test": 4})
    write_images(root / "shapes", {"train": 48, "val": 9, "test": 12})
    return root


def module(places, **options) -> MultiTask:
    tasks = options.pop("tasks", ("pocket_digits", str(places / "few"), str(places / "shapes")))
    settings = {"img_size": 16, "batch_size": 16, "augment": "crop_flip", "seed": 5}
    return MultiTask(tasks=tasks, root=str(places), **{**settings, **options})


def fitted(places, **options) -> MultiTask:
    made = module(places, **options)
    made.prepare_data()
    made.setup("fit")
    return made


def test_tasks_are_listed_by_name(places):
    made = module(places)
    assert made.num_classes == 10
    assert list(made.all_tasks) == ["pocket_digits", "few", "shapes"]
    made.setup("fit")
    assert [task.num_train for task in made.all_tasks.values()] == [1258, 6, 48]
    assert [task.num_classes for task in made.all_tasks.values()] == [10, 3, 3]
    task = made.task
    assert (task.name, task.num_train, task.num_classes, task.img_size) == ("multi_task", 1312, 10, 16)
    assert task.mean == made.all_tasks["pocket_digits"].mean
    assert list(made.sampling_weights) == list(made.all_tasks)
    assert sum(made.sampling_weights.values()) == pytest.approx(1)
    assert module(places, tasks=("pocket_digits",)).task.name == "pocket_digits"
    assert len(made.train_dataloader()) == made.train_dataloader().epoch_length == 82
    assert len(fitted(places, steps_per_epoch=7).train_dataloader()) == 7


def test_every_batch_is_of_one_task_even_one_smaller_than_a_batch(places):
    made = fitted(places, temperature=float("inf"), steps_per_epoch=20)
    seen = Counter()
    for batch in made.train_dataloader():
        seen[batch.task] += 1
        assert batch.inputs.shape == (16, 3, 16, 16)
        assert 0 <= batch.targets.min() <= batch.targets.max() < made.all_tasks[batch.task].num_classes
        if batch.task == "few":
            assert set(batch.targets.tolist()) == {0, 1, 2}
    assert set(seen) == set(made.all_tasks)


def test_epochs_of_another_length_are_refused_on_resume(places):
    state = fitted(places, steps_per_epoch=6).train_dataloader().state_dict()
    with pytest.raises(UserError, match=r"data\.steps_per_epoch: the run had epochs of 6 steps, not 7"):
        fitted(places, steps_per_epoch=7).train_dataloader().load_state_dict(state)


def test_evaluation_goes_through_the_tasks_in_order(places):
    made = fitted(places, limit_eval=5, batch_size=2)
    made.setup("test")
    batches = list(made.val_dataloader())
    assert [(b.task, len(b.targets)) for b in batches] == [
        ("pocket_digits", 4), ("pocket_digits", 1), ("few", 3), ("shapes", 4), ("shapes", 1),
    ]  # fmt: skip
    shapes = torch.cat([b.targets for b in batches if b.task == "shapes"])
    assert set(shapes.tolist()) == {0, 1, 2}
    tested = Counter()
    for batch in made.test_dataloader():
        tested[batch.task] += len(batch.targets)
    assert tested == {"pocket_digits": 359, "few": 4, "shapes": 12}
    with pytest.raises(UserError, match="predict one task at a time"):
        made.predict_dataloader()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tasks": ()}, r"data\.tasks: expected at least one data set, got none"),
        ({"tasks": ("pocket_digits", "pocket_digits")}, r"data\.tasks: .* got pocket_digits twice"),
        ({"tasks": ("pocket_digit",)}, "unknown data set pocket_digit; did you mean pocket_digits"),
        ({"tasks": ("pocket",)}, "pocket is a suite of data sets; name one: pocket_digits"),
        ({"tasks": ("/nowhere",)}, r"unknown data set /nowhere; .* or give a folder that holds train/<class>"),
        ({"temperature": 0.0}, r"data\.temperature: expected a number above 0 .*, got 0\.0"),
        ({"steps_per_epoch": 0}, r"data\.steps_per_epoch: expected at least 1"),
    ],
)
def test_bad_arguments_are_refused(places, options, sentence):
    with pytest.raises(UserError, match=sentence):
        module(places, **options)
