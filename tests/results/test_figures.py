"""Figures of a report: panels, ticks, ids; the order of methods."""

import re
from itertools import pairwise

import pytest
from matplotlib.axes import Axes

from lgx.components.figures import log_ticks, make_panels, to_svg
from lgx.methods.registry import method_order
from lgx.results.report import Report, ReportFigure, Section, to_html


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


@pytest.mark.parametrize("ends", [(0.21, 0.9), (0.9, 1.2), (3, 40), (0.01, 900), (1e-5, 1e6)], ids=str)
def test_ticks_of_compute_do_not_overlap(ends) -> None:
    _, (axes,) = make_panels(1)
    axes.plot(ends, [0, 1])
    log_ticks(axes)
    assert overlapping(axes) == []


def test_figures_of_a_page_have_its_ink_and_ids_of_their_own() -> None:
    figure, panels = make_panels(2, share_y=True)
    for axes in panels:
        axes.plot([0, 1], [0, 1], color="#000000")
    drawn = [ReportFigure(name, to_svg(figure, name), "label", "caption") for name in ("one", "other")]
    assert "#000000" in drawn[0].svg
    page = to_html(Report("title", [], [Section("section", figures=drawn)]), "lgx")
    assert page.count("<svg") == 2
    assert "#000000" not in page
    assert "currentColor" in page.partition("<svg")[2]
    ids = re.findall(r' id="([^"]+)"', "".join(figure.svg for figure in drawn))
    assert len(ids) == len(set(ids))


def test_methods_have_a_fixed_order_with_their_variants_and_others_follow_by_name():
    order = ["random", "random_long", "pretrained", "sws", "sws (order=1)", "sws_order2", "lsamd", "tal", "tal_st", "a"]
    assert sorted(order[::-1], key=method_order) == order
