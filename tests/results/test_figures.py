"""Panels, ticks and captions of a report's figures."""

import re
from itertools import pairwise

import pytest
from matplotlib.axes import Axes

from lgx.components.figures import glyph, in_ink, make_panels, to_panels, to_svg
from lgx.components.ticks import log_ticks, step_ticks, whole_ticks
from lgx.results.curves import Curve
from lgx.results.figures import average_figure, curve_section, depth_section
from lgx.results.looks import styles
from lgx.results.standings import standings
from tests.results.helpers import row

LOOKS = styles(["random", "sws"])


def curve(*values: float) -> Curve:
    return Curve(tuple(range(0, 10 * len(values), 10)), values)


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


def test_captions_fit_the_number_of_seeds() -> None:
    seeds = {seed: {"train/loss": curve(3.0, 2.0)} for seed in (0, 1)}
    section = curve_section({("pocket", "6-Small"): {"sws": seeds}}, LOOKS)
    assert "Lines are means over seeds, bands their range." in section.figures[0].caption
    for count, words in ((1, "One seed each, so that there are no bars"), (3, "Means over 3 seeds; bars are 95 %")):
        rows = [
            row(method, f"{depth}-Small", seed=seed)
            for method in ("random", "sws") for depth in (4, 6) for seed in range(count)
        ]  # fmt: skip
        depths = depth_section(rows, "acc", LOOKS, {"pocket": 10.0})
        averages = average_figure(standings(rows, "acc"), LOOKS, {})
        for caption in (depths.figures[0].caption, averages.caption):
            assert words in caption
            assert "ook at which" in caption
        assert "Chance is 10.00 %." in depths.figures[0].caption


@pytest.mark.parametrize("depths", [range(1, 37), (4, 6, 8), (1, 2, 3, 24), (12,), (96, 97, 98, 120)], ids=str)
def test_ticks_of_depths_do_not_overlap(depths) -> None:
    _, (axes,) = make_panels(1)
    axes.plot(list(depths), [0.5] * len(depths), "o")
    whole_ticks(axes, depths)
    if len(depths) > 1:
        assert overlapping(axes) == []
    else:
        assert list(axes.get_xticks()) == [12]


@pytest.mark.parametrize("last", [1, 9, 937, 12_345, 3_000_000])
def test_ticks_of_steps_do_not_overlap(last: int) -> None:
    _, (axes,) = make_panels(1)
    axes.plot([0, last], [0, 1])
    step_ticks(axes)
    assert overlapping(axes) == []


@pytest.mark.parametrize("ends", [(0.21, 0.9), (0.9, 1.2), (3, 40), (0.01, 900), (1e-5, 1e6)], ids=str)
def test_ticks_of_compute_do_not_overlap(ends: tuple[float, float]) -> None:
    _, (axes,) = make_panels(1)
    axes.plot(ends, [0, 1])
    log_ticks(axes)
    assert overlapping(axes) == []


def test_panels_stand_alone_in_the_ink_of_the_page() -> None:
    figure, panels = make_panels(2, share_y=True)
    for axes, title in zip(panels, ("left", "right"), strict=True):
        axes.plot([0, 1], [0, 1], color="#000000")
        axes.set_title(title)
    whole = to_svg(figure, "whole")
    one, other = to_panels(figure, "part")
    assert "left" in one
    assert "right" not in one
    assert "left" not in other
    assert ">0.0<" in other  # its own numbers, although the axis is shared
    assert "#000000" in whole
    assert "#000000" not in one + other
    assert "currentColor" in one
    ids = re.findall(r' id="([^"]+)"', one + other)
    assert len(ids) == len(set(ids))
    assert to_svg(figure, "again").count("<g") == whole.count("<g")  # everything is visible again


def test_glyphs_show_color_dash_and_marker() -> None:
    shown = glyph("#0072b2", "--", "s", "g")
    assert "#0072b2" in shown
    assert "stroke-dasharray" in shown
    assert "currentColor" in glyph("#000000", "-", "o", "g")
    assert in_ink("fill: #0000001") == "fill: #0000001"
