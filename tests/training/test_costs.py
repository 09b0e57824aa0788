"""What runs count of their costs: it changes nothing, is complete, and takes little time."""

import json
import random

import pytest
import torch

from lgx.artifacts.learngene import Learngene
from lgx.training.step_flops import Size, StepFlops
from tests.support.command_line import arguments, lgx, ok

NOTHING = Size(0, 0)


class Silent:
    """Counts nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def get_total_flops(self):
        return 1


def fit(images, folder, *options):
    """Summary and tensors of a run."""
    ok(lgx(*arguments("fit", "Ancestor", images, folder, "--name=run", "--trainer.max_epochs=2", *options)))
    run = folder / "test/run/seed0"
    tensors = Learngene.load(run / "final.learngene.safetensors").tensors
    return json.loads((run / "summary.json").read_text()), tensors


@pytest.mark.parametrize(
    "options",
    [["--trainer.precision=bf16-mixed"], ["--trainer.accumulate_grad_batches=2", "--model.drop_path_rate=0.1"]],
)
def test_counting_changes_no_bit_of_the_weights(images, tmp_path, monkeypatch, options):
    counted, tensors = fit(images, tmp_path / "counted", *options)
    monkeypatch.setattr("lgx.training.callbacks.costs.flop_counter", Silent)
    uncounted, others = fit(images, tmp_path / "uncounted", *options)
    assert counted["flops"] > uncounted["flops"]
    assert tensors.keys() == others.keys()
    assert all(torch.equal(tensor, others[name]) for name, tensor in tensors.items())


def test_a_compiled_network_is_not_counted(images, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.nn.Module, "compile", lambda network: None)
    summary, _ = fit(images, tmp_path, "--model.compile=true")
    assert (summary["flops"], summary["examples"]) == (None, 2 * 48)


def count(steps):
    """Estimated sum of the FLOPs of steps, each with its size and FLOPs, and how many were counted."""
    counts = StepFlops()
    total, counted = 0.0, 0
    for size, flops in steps:
        if counts.is_due("kind"):
            counts.add("kind", size, flops)
            total += flops
            counted += 1
        else:
            total += counts.expected("kind", size)
    return total, counted


def test_few_of_many_equal_steps_are_counted():
    total, counted = count([(NOTHING, 7e9)] * 10_000)
    assert total == pytest.approx(7e13)
    assert counted < 200


def test_steps_follow_the_size_of_their_networks():
    draw = random.Random(0)
    sizes = [Size(draw.uniform(1e8, 1e10), draw.uniform(1e6, 1e8)) for _ in range(5_000)]
    steps = [(size, 6 * size.macs + 40 * size.parameters + 1e9) for size in sizes]
    total, counted = count(steps)
    assert total == pytest.approx(sum(flops for _, flops in steps))
    assert counted < 200


def test_a_change_of_the_steps_is_noticed():
    draw = random.Random(0)
    steps = [(NOTHING, draw.choice([2e9, 3e9])) for _ in range(5_000)] + [(NOTHING, 2e9)] * 5_000
    total, counted = count(steps)
    assert total == pytest.approx(sum(flops for _, flops in steps), rel=0.02)
    assert counted < 1_000
