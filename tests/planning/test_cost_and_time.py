"""Predicted FLOPs and hours."""

import pytest

from lgx.architectures import parse_architecture, read_architectures
from lgx.architectures.cost import cost_of
from lgx.planning.configured import configure
from lgx.planning.cost import mean_over, spread
from tests.planning.helpers import BASE, LOW_RANK, OFFLINE, plan
from tests.support.paths import EXPERIMENTS


def test_flops_are_those_of_the_architecture_and_three_passes():
    planned = plan(*BASE, "--trainer.max_epochs=2")
    forward = 2 * cost_of(configure(BASE).method.architecture).macs
    assert planned.flops.forward == pytest.approx(forward, rel=1e-6)
    assert planned.flops.example == pytest.approx(3 * forward)
    assert planned.total_flops == pytest.approx(3 * forward * planned.steps.samples)


def test_an_ancestor_costs_only_its_forward_pass():
    sws = ["--model=SWS", "--model.arch=12-Tiny", BASE[2], *OFFLINE, "--data.img_size=224"]
    with_ancestor = plan(*sws, "--model.ancestor=deit_small_patch16_224.fb_in1k")
    assert with_ancestor.flops.teacher == pytest.approx(2 * cost_of(parse_architecture("12-Small")).macs, rel=1e-6)
    flops = with_ancestor.flops
    assert flops.example == pytest.approx(3 * flops.forward + flops.teacher)
    assert with_ancestor.parameters.teacher == cost_of(parse_architecture("12-Small")).parameters
    assert with_ancestor.memory.teacher == pytest.approx(4 * with_ancestor.parameters.teacher, rel=0.01)
    assert with_ancestor.parameters.trained == plan(*sws).parameters.trained


@pytest.mark.slow
def test_the_expected_cost_over_a_set_is_its_mean():
    file, arch = EXPERIMENTS / "tal" / "vits_mini.jsonl", "depth=6,embed_dim=96,num_heads=3,img_size=32,patch_size=8"
    members = read_architectures(str(file))
    chosen = spread(members)
    assert len(chosen) < len(members)
    mean = sum(cost_of(member).macs for member in members) / len(members)
    assert mean_over(members, chosen, [cost_of(member).macs for member in chosen]) == pytest.approx(mean, rel=0.01)
    hyper = ["--model=LoGAH", *LOW_RANK, f"--model.set={file}", "--model.set_size=2"]
    options = [*hyper, f"--model.arch={arch}", BASE[2], *OFFLINE]
    once, twice = (plan(*options, f"--model.meta_batch={m}").flops for m in (1, 2))
    assert twice.forward == pytest.approx(2 * once.forward, rel=0.01)


def test_time_follows_from_the_speed_that_is_given():
    planned = plan(*BASE, "--gpus=2", "--trainer.max_epochs=4", "--throughput=500")
    assert planned.hours == pytest.approx(planned.steps.samples / 1000 / 3600)
    by_flops = plan(*BASE, "--gpus=2", "--trainer.max_epochs=4", "--tflops=100", "--mfu=0.25")
    assert 2 * by_flops.hours == pytest.approx(planned.total_flops / 25e12 / 3600)
    assert plan(*BASE).hours is None
