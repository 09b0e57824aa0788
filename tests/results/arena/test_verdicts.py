"""Interpolation, crossovers and choices on curves that are known."""

from dataclasses import replace
from math import inf
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lgx.results.arena.arena_file import Arena
from lgx.results.arena.points import Amount, Point, at_compute, own_compute_to
from lgx.results.arena.rounds import longer_scratch
from lgx.results.arena.sections import headlines, verdict_section
from lgx.results.arena.verdicts import Need, against_scratch, best_within, cheaper_sizes, need_of, setbacks

PLACE = ("task", "size")
positive = st.floats(1e6, 1e15)


def point(flops: float, *accuracies: float, budget: int = 1, sources: float = 0.0, shared: float = 0.0) -> Point:
    nothing = Amount(0.0, 0.0, 0.0)
    values = dict(enumerate(accuracies))
    return Point(budget, values, Amount(flops, sources, shared), nothing, 100, "6-Small", frozenset({"CPU"}))


@given(positive, st.floats(1.1, 100), st.floats(0, 100), st.floats(0, 100), st.floats(0, 1))
def test_interpolated_accuracy_lies_between_its_neighbors(flops, ratio, low, high, share):
    curve = [point(flops, low), point(flops * ratio, high, budget=2)]
    between = at_compute(curve, flops * ratio**share, 0)
    assert between is not None
    assert min(low, high) - 1e-6 <= between <= max(low, high) + 1e-6


def test_accuracy_is_known_within_the_measured_compute_alone():
    curve = [point(1e9, 10), point(4e9, 30, budget=4)]
    assert [at_compute(curve, flops, 0) for flops in (0.5e9, 0.99e9, 2e9, 4.05e9, 5e9)] == [None, 10, 20, 30, None]
    assert at_compute(curve, 2e9, 1) is None


def test_compute_to_an_accuracy():
    curve = [point(1e9, 10), point(4e9, 30, budget=4)]
    assert own_compute_to(curve, 20) == (pytest.approx(2e9), False)
    assert own_compute_to(curve, 5) == (1e9, True)
    assert own_compute_to(curve, 31) is None


def test_a_need_separates_shared_sources_from_those_of_one_size():
    curve = [point(1e9, 50, sources=9e9, shared=5e9)]  # 6 shared by three sizes, 3 of one size
    need = need_of(curve, 40, 3, tasks=1)
    assert need == Need(4e9, 6e9, True)
    assert need.own + need.learning / 3 == curve[0].flops.total
    assert need_of(curve, 60, 3, tasks=1) is None
    of_two_tasks = [point(1e9, 50, sources=18e9, shared=5e9)]
    assert need_of(of_two_tasks, 40, 3, tasks=2) == need


@given(*[st.floats(0, 100) for _ in range(4)])
def test_numbers_of_sizes_for_which_a_start_is_cheaper(own, learning, other, taught):
    one, two = Need(own, learning, False), Need(other, taught, False)
    least, most = cheaper_sizes([one], [two])
    for count in range(1, 60):
        saved = other + taught / count - own - learning / count
        if abs(saved) > 1e-6:
            assert (saved > 0) == (least <= count <= most), count


def test_words_of_crossovers():
    assert cheaper_sizes([Need(1, 6, False)], [Need(3, 0, False)]) == (4, inf)
    assert cheaper_sizes([Need(1, 0, False)], [Need(3, 0, False)]) == (1, inf)
    assert cheaper_sizes([Need(3, 0, False)], [Need(1, 0, False)]) == (inf, inf)
    assert cheaper_sizes([Need(3, 0, False)], [Need(1, 5, False)]) == (1, 2)


def test_a_start_is_compared_with_scratch_at_its_own_total_compute():
    curves = {
        "scratch": {PLACE: [point(1e9, 10, 12), point(4e9, 30, 32, budget=4)]},
        "start": {PLACE: [point(1e9, 25, 27, sources=2e9, shared=1e9)]},
        "costly": {PLACE: [point(9e9, 99, 99)]},
    }
    difference, places = against_scratch(curves, "start", "scratch", 1)
    assert (difference.summary.mean, places) == (pytest.approx(5), {PLACE})
    assert against_scratch(curves, "costly", "scratch", 1) is None


def test_the_best_start_within_a_bound_names_its_equals():
    curves = {
        "cheap": {PLACE: [point(1e9, 40, 41, 42)]},
        "equal": {PLACE: [point(1e9, 42, 40, 40)]},
        "worse": {PLACE: [point(1e9, 20, 21, 22.5)]},
        "costly": {PLACE: [point(1e9, 90, 91, 92, sources=9e9, shared=9e9)]},
    }
    choice = best_within(curves, PLACE, 2e9)
    assert (choice.start, choice.equals) == ("cheap", ("equal",))
    assert best_within(curves, PLACE, inf).start == "costly"
    assert best_within(curves, PLACE, 1e8) is None


def test_a_size_without_training_from_scratch_gets_no_longer_one():
    arena = cast(Arena, SimpleNamespace(scratch="scratch", budgets=lambda start: [0]))
    assert longer_scratch(arena, {"scratch": {PLACE: [point(0, 10, budget=0)]}}) == {}


def test_longer_training_that_ends_worse_is_reported():
    worse = [point(1e9, 40, 41, 42), point(2e9, 30, 31, 32.5, budget=2)]
    assert setbacks({"scratch": {PLACE: worse}}, "scratch") == [
        "task, size: 2 epochs from scratch end 9.8 points below 1."
    ]
    assert setbacks({"scratch": {PLACE: worse[::-1]}}, "scratch") == []


def test_only_starts_that_were_compared_at_the_same_places_are_ranked():
    elsewhere = ("task", "small")
    scratch = [point(1e9, 10, 12), point(4e9, 30, 32, budget=4)]
    curves = {
        "scratch": {PLACE: scratch, elsewhere: scratch},
        "best at one": {PLACE: [point(1e9, 40, 42)]},
        "both": {PLACE: [point(1e9, 45, 47.1)], elsewhere: [point(1e9, 15, 17)]},
        "worse": {PLACE: [point(1e9, 20, 22)], elsewhere: [point(1e9, 14, 16)]},
    }
    arena = SimpleNamespace(scratch="scratch", budgets=lambda start: [1])
    result = headlines(cast(Arena, arena), curves)
    assert "both is farthest ahead of scratch, which is training from scratch: 20.0" in result[0]
    assert "2 pairs of task and size" in result[0]
    assert result[1:] == ["Not ranked, because measured on other pairs of task and size: best at one."]


def test_seconds_of_different_machines_are_not_averaged():
    arena = cast(Arena, SimpleNamespace(scratch="scratch", budgets=lambda start: [1]))
    one = replace(point(1e9, 10, 12), seconds=Amount(7.0, 0.0, 0.0))

    def seconds(other: str) -> list[str]:
        curves = {"scratch": {PLACE: [one]}, "start": {PLACE: [replace(one, machines=frozenset({other}))]}}
        (table,) = verdict_section(arena, curves).tables
        return [cells[table.columns.index("seconds")].text for _, cells in table.rows]

    assert seconds("CPU") == ["7", "7"]
    assert seconds("GPU") == ["–", "–"]
