"""Order, colors and dashes of methods."""

import pytest

from lgx.methods import registry
from lgx.methods.spec import BLUE, Look
from lgx.results.looks import label_of, method_order, styles

ORDER = [
    "random", "trained", "pretrained", "pretrain_finetune", "ancestor", "vanilla_lg", "weight_selection", "tleg",
    "mini_deit", "simple_lg", "sws_random_assigned", "sws_random_in_order", "sws_order2", "sws", "lsamd", "ghn3",
    "ghn3_task", "logah", "tal_st", "tal_no_task", "tal_no_ancestor", "tal", "tal_plus",
]  # fmt: skip


def test_methods_of_the_papers_have_a_fixed_order_and_others_follow_by_name():
    names = [*ORDER[::-1], "b", "a"]
    assert sorted(names, key=method_order) == [*ORDER, "a", "b"]
    assert sorted(["tal", "sws", "sws (order=1)", "lsamd"], key=method_order)[:2] == ["sws", "sws (order=1)"]
    assert method_order("sws (order=1)") < method_order(
        "sws (order=2)"
    )  # so that a table never depends on a set's order


def test_every_method_of_the_papers_has_its_own_color_and_dashes():
    assert len({(look.color, look.dash) for look in styles(ORDER).values()}) == len(ORDER)


def test_the_style_of_a_method_does_not_depend_on_other_methods():
    assert styles(["sws", "mine"])["sws"] == styles(["tleg", "sws", "another"])["sws"]
    assert len({(s.color, s.dash) for s in styles(["sws", "a", "b", "c"]).values()}) == 4


def test_a_declared_method_has_its_place_and_label_and_without_a_look_a_free_style(monkeypatch):
    declared = {"first": Look("first", "first", ""), "sws": Look("sws", "SWS", BLUE)}
    monkeypatch.setattr(registry, "looks", lambda: declared)
    assert sorted(["another", "sws", "first"], key=method_order) == ["first", "sws", "another"]
    looks = styles(["first", "sws", "another"])
    assert [looks[name].label for name in ("first", "sws", "another")] == ["first", "SWS", "another"]
    assert len({(look.color, look.dash) for look in looks.values()}) == 3


@pytest.mark.parametrize(
    ("name", "method", "label"),
    [
        ("sws_from_middle_narrowed", "sws", "SWS, start: middle layers, narrowed"),
        ("tleg_narrowed", "tleg", "TLEG, narrowed"),
        ("nobody_knows_it", None, "nobody_knows_it"),
    ],
)
def test_the_words_that_a_start_adds_do_not_hide_its_method(name, method, label):
    found = registry.find_spec(name)
    assert (found and found.name) == method
    assert label_of(name) == label
