"""The structure that CONTRIBUTING.md describes, computed from the code."""

import re
from collections.abc import Callable
from functools import reduce
from inspect import signature
from operator import getitem
from typing import Any

import pytest
import yaml

import lgx.methods
from experiments.reproduce.costs import costs_as_markdown, planned_cost, read_costs
from tests.support import house
from tests.support.paths import EXPERIMENTS


@pytest.mark.parametrize(
    ("rooms", "room"), [(house.ROOMS, house.room_of), (house.ROOMS_OF_DATA, house.room_of_data)], ids=["lgx", "data"]
)
def test_imports_go_one_way(rooms: tuple[str, ...], room: Callable[[str], str]):
    upward = {
        f"{source} -> {target}": behind
        for (source, target), behind in house.arrows(room).items()
        if rooms.index(source) >= rooms.index(target)
    }
    assert not upward


def test_no_modules_import_each_other_in_a_circle():
    assert not house.circle({module: house.imports_of(module) for module in house.modules()})


def test_data_modules_know_core_and_host_alone_and_their_foundations_no_room():
    rooms = tuple(f"data_modules.{room}" for room in house.ROOMS_OF_DATA)
    for module in (name for name in house.modules() if name.startswith("data_modules")):
        imported = house.imports_of(module)
        own = {name for name in imported if name.startswith("lgx")}
        assert not {name for name in own if not name.startswith(("lgx.core", "lgx.host", "lgx.errors"))}, module
        is_foundation = module.count(".") == 1 and module not in rooms
        assert not is_foundation or not {name for name in imported if name.startswith(rooms)}, module


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


def test_every_part_of_a_cost_is_planned_and_kept_answers_count_one_pass_of_each_image():
    sums = [claim[side] for claim in COSTS["claims"] if "more" in claim for side in ("more", "less")]
    sums += [parts for _, parts in COSTS["hours"]["printed"].values()]
    costs = read_costs()
    assert {part for parts in sums for part in parts} <= costs.keys() == COSTS["parts"].keys()
    cost, lines = read_costs()["tal_stage1"], costs_as_markdown("tal").splitlines()
    assert cost.kept == pytest.approx(cost.exaflops - cost.of_ancestor * 74 / 75)
    assert any(re.search(r"22 % less time.*\| 0\.\d+x \| 0\.\d+x \| reversed in FLOPs", line) for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["sws_learngene", "lsamd_tuned", "tal_stage1", "logah_imagenet"])
def test_costs_are_those_that_the_plan_gives(part, monkeypatch):
    monkeypatch.chdir(EXPERIMENTS.parent)
    planned, committed = planned_cost(COSTS["parts"][part]), read_costs()[part]
    assert planned.exaflops == pytest.approx(committed.exaflops, rel=1e-3)
    assert planned.of_ancestor == pytest.approx(committed.of_ancestor, rel=1e-3)
