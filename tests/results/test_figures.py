"""A report's curves and figures: panels, ticks, captions; order, colors and dashes of methods."""

import os
import re
from itertools import pairwise

import pytest
from matplotlib.axes import Axes

from lgx.components.figures import log_ticks, make_panels, step_ticks, to_svg, whole_ticks
from lgx.core.rows import write_rows
from lgx.methods import registry
from lgx.methods.spec import BLUE, Look
from lgx.results.figures import curve_section, curves_of_runs
from lgx.results.looks import label_of, method_order, styles
from lgx.results.markdown import to_html
from lgx.results.merging import merge
from lgx.results.report import Report, ReportFigure, Section
from tests.results.helpers import row

LOOKS = styles(["random", "sws"])


def overlapping(axes: Axes) -> list[str]:
    """Labels of neighboring ticks of the horizontal axis that overlap."""
    axes.figure.draw_without_rendering()
    low, high = sorted(axes.get_xlim())
    shown = [
        label
        for tick in [*axes.xaxis.get_major_ticks(), *axes.xaxis.get_minor_ticks()]
        if low <= tick.get_loc() <= high and (label := tick.label1).get_visible() and label.get_text()
    ]
    boxes = sorted(((label.get_window_extent(), label.get_text()) for label in shown), key=lambda pair: pair[0].x0)
    assert len(boxes) > 1
    return [f"{one[1]} {other[1]}" for one, other in pairwise(boxes) if one[0].x1 >= other[0].x0]


@pytest.mark.parametrize("depths", [range(1, 37), (4, 6, 8), (1, 2, 3, 24), (12,), (96, 97, 98, 120)], ids=str)
def test_ticks_of_depths_do_not_overlap(depths) -> None:
    _, (axes,) = make_panels(1)
    axes.plot(list(depths), [0.5] * len(depths), "o")
    whole_ticks(axes, depths)
    if len(depths) > 1:
        assert overlapping(axes) == []
    else:
        assert list(axes.get_xticks()) == [12]


STEPS = [(step_ticks, (0, last)) for last in (1, 9, 937, 12_345, 3_000_000)]
COMPUTE = [(log_ticks, ends) for ends in ((0.21, 0.9), (0.9, 1.2), (3, 40), (0.01, 900), (1e-5, 1e6))]


@pytest.mark.parametrize(("ticks", "ends"), [*STEPS, *COMPUTE])
def test_ticks_of_steps_and_compute_do_not_overlap(ticks, ends) -> None:
    _, (axes,) = make_panels(1)
    axes.plot(ends, [0, 1])
    ticks(axes)
    assert overlapping(axes) == []


def test_figures_of_a_page_have_its_ink_and_ids_of_their_own() -> None:
    figure, panels = make_panels(2, share_y=True)
    for axes in panels:
        axes.plot([0, 1], [0, 1], color="#000000")
    drawn = [ReportFigure(name, to_svg(figure, name), "label", "caption") for name in ("one", "other")]
    assert "#000000" in drawn[0].svg
    page = to_html(Report("title", [], [], [Section("section", figures=drawn)]))
    assert page.count("<svg") == 2
    assert "#000000" not in page
    assert "currentColor" in page.partition("<svg")[2]
    ids = re.findall(r' id="([^"]+)"', "".join(figure.svg for figure in drawn))
    assert len(ids) == len(set(ids))


def test_curves_are_over_the_epochs_of_the_longest_run_of_a_seed():
    def epochs(values, **changes):
        return [row(value=value, epochs=epoch, **{"split": "val", **changes}) for epoch, value in values.items()]

    rows = epochs({2: 0.2, 1: 0.1, 3: 0.3}) + epochs({1: 0.5, 2: 0.6}, run="short") + epochs({1: 0.7}, run="b", seed=1)
    rows += epochs({1: 3.0, 2: 2.0}, split="train", metric="loss")
    rows += [r for task in "ab" for r in epochs({1: 0.1, 2: 0.2}, run="hypernetwork", task=task)]
    curve = {"sws": {0: {1: 0.1, 2: 0.2, 3: 0.3}}}
    found = {("pocket", "6-Small"): {"val/acc": curve, "train/loss": {"sws": {0: {1: 3.0, 2: 2.0}}}}}
    assert curves_of_runs(rows, "acc", "test") == found
    assert set(curves_of_runs(rows, "loss", "train")["pocket", "6-Small"]) == {"train/loss"}
    rows += epochs({2: 0.4, 3: 0.5}, run="third", seed=2)
    (figure,) = curve_section(curves_of_runs(rows, "acc", "test"), LOOKS).figures
    assert figure.svg.count("training epoch") == 2


def test_a_run_keeps_its_curve_where_a_newer_run_has_measured_the_same(tmp_path):
    for age, (name, epochs) in enumerate({"short": 1, "long": 2}.items()):
        file = tmp_path / f"{name}.csv"
        write_rows(file, [row(epochs=epoch, split="val", run=name) for epoch in range(1, epochs + 1)])
        os.utime(file, (0, 1e9 - age))
    merged = merge([*tmp_path.iterdir()], "val")
    assert len(merged.rows) == 2
    assert curves_of_runs(merged.every, "acc", "test")["pocket", "6-Small"]["val/acc"] == {"sws": {0: {1: 0.5, 2: 0.5}}}


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
    assert list(styles(ORDER)) == ORDER  # so is the legend, whatever the order of a set


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
