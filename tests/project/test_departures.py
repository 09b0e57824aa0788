"""The tables of departures from the papers, and of costs, agree with the code and its configurations."""

from functools import reduce
from inspect import signature
from math import ceil
from operator import getitem
from typing import Any

import pytest
import yaml

import lgx.methods
from data_modules.multi_task.samplers import task_weights
from data_modules.suites import decathlon
from data_modules.suites import mini_decathlon as mini
from experiments.reproduce.costs import costs_as_markdown, planned_cost, read_costs
from tests.support.paths import EXPERIMENTS

TABLES = yaml.safe_load((EXPERIMENTS / "departures.yaml").read_text())
COSTS = yaml.safe_load((EXPERIMENTS / "costs.yaml").read_text())
CHECKS = [check for paper in TABLES.values() for lines in paper.values() for line in lines for check in line[3:]]


@pytest.mark.parametrize("check", CHECKS)
def test_a_departure_states_what_the_code_or_the_configuration_has(check):
    place, _, value = check.partition("=")
    file, _, key = place.partition(": ")
    found: Any
    if key:
        found = reduce(getitem, key.split("."), yaml.safe_load((EXPERIMENTS / file).read_text()))
    else:
        class_name, _, option = place.partition(".")
        owner = getattr(lgx.methods, class_name)
        found = next(
            signature(base.__init__).parameters[option].default
            for base in owner.__mro__
            if option in signature(base.__init__).parameters
        )
    assert str(found) == value


def test_every_line_of_departures_says_what_the_paper_and_lgx_do():
    lines = [line for paper in TABLES.values() for lines in paper.values() for line in lines]
    assert all(len(line) >= 3 and all(isinstance(cell, str) and cell for cell in line) for line in lines)


def test_steps_that_verdicts_and_departures_name_are_those_of_the_sampler():
    files = ("index.yaml", "tal/ablations.yaml", "tal/mini/stage2.yaml")
    index, ablations, stage2 = (yaml.safe_load((EXPERIMENTS / name).read_text()) for name in files)
    options = next(run["options"] for run in ablations["runs"] if run["name"] == "tal{without}")
    tasks = [name.removeprefix("mini_") for name in stage2["data"]["init_args"]["tasks"]]
    weights = task_weights([mini.FACTS[task].sizes[0] for task in tasks], options["data.temperature"])
    total = options["data.steps_per_epoch"] * stage2["trainer"]["max_epochs"]
    steps = dict(zip(tasks, total * weights / weights.sum(), strict=True))
    found = "{gtsrb:.0f}, {flowers12:.0f} and {dtd10:.0f}".format(**steps)
    assert f"{found} of {total:,}" in index["tal/table7"]["mini"]["confounded"]["tal > tal_st"]
    sizes = [facts.sizes[0] for task, facts in decathlon.FACTS.items() if task != "imagenet"]
    held = [ceil(sum(numbers) / 512) for numbers in ([size - size // 10 for size in sizes], sizes)]
    lines = {line[0]: line[2] for line in TABLES["tal"]["paper scale"]}
    assert lines["steps of stage 2"].startswith(f"{held[0]} steps an epoch")
    assert f"the code has {held[1]}" in lines["steps of stage 2"]


def test_every_part_of_a_cost_is_planned():
    sums = [claim[side] for claim in COSTS["claims"] if "more" in claim for side in ("more", "less")]
    sums += [parts for _, parts in COSTS["hours"]["printed"].values()]
    costs = read_costs()
    assert {part for parts in sums for part in parts} <= costs.keys() == COSTS["parts"].keys()


def test_a_cost_with_the_ancestors_answers_kept_counts_one_pass_of_each_image():
    cost, lines = read_costs()["tal_stage1"], costs_as_markdown("tal").splitlines()
    assert cost.kept == pytest.approx(cost.exaflops - cost.of_ancestor * 74 / 75)
    assert any("22 % less time" in line and "| 0.0881x | 0.872x | reversed in FLOPs" in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["sws_learngene", "lsamd_tuned", "tal_stage1", "logah_imagenet"])
def test_costs_are_those_that_the_plan_gives(part, monkeypatch):
    monkeypatch.chdir(EXPERIMENTS.parent)
    planned, committed = planned_cost(COSTS["parts"][part]), read_costs()[part]
    assert planned.exaflops == pytest.approx(committed.exaflops, rel=1e-3)
    assert planned.of_ancestor == pytest.approx(committed.of_ancestor, rel=1e-3)
