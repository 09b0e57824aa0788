"""The structure that CONTRIBUTING.md describes, computed from the code."""

import re
from collections.abc import Callable
from functools import reduce
from inspect import signature
from math import ceil
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
import yaml

import lgx.methods
from data_modules.multi_task.samplers import task_weights
from data_modules.suites import decathlon
from data_modules.suites import mini_decathlon as mini
from experiments.reproduce.costs import costs_as_markdown, planned_cost, read_costs
from lgx.methods import registry
from tests.support import house
from tests.support.paths import EXPERIMENTS

METHODS = house.ROOT / "lgx" / "methods"
PYTHON = sorted(path for package in ("lgx", "data_modules") for path in (house.ROOT / package).rglob("*.py"))
OUTSIDE = [path for path in PYTHON if METHODS not in path.parents]

COMMON_WORDS = {"front", "random", "pretrained", "trained", "ancestor", "family", "backbones"}
"""Names of methods that are English words: options, timm's arguments and messages use them in their own sense."""


def relative(path: Path) -> str:
    return path.relative_to(house.ROOT).as_posix()


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


def test_names_say_what_a_value_is():
    vague = {"found", "own", "known", "given"}
    names = {
        f"{relative(path)}:{line} {name}"
        for path in PYTHON
        for line, name in house.names_in(path)
        if {*name.split("_")} & vague
    }
    assert not names


def test_a_method_is_named_in_its_folder_alone():
    names = {name for spec in registry.specs().values() for name in spec.names}
    found = {
        f"{relative(path)}:{line} {text!r}"
        for path in OUTSIDE
        for line, text in house.strings(path)
        if text in names - COMMON_WORDS
    }
    assert found == set()


def test_nobody_else_asks_for_the_class_of_a_method():
    own = house.classes_below(METHODS)
    found = {
        f"{relative(path)}:{line} {name}" for path in OUTSIDE for line, name in house.kinds_checked(path) if name in own
    }
    assert found == set()


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
