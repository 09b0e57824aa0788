"""Figures of a comparison and their captions: a metric against the size of networks, and against compute."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from lgx.components.figures import log_ticks, make_panels, plain, to_svg
from lgx.core.rows import Row
from lgx.methods.registry import method_order
from lgx.results.architecture_names import architecture_order, depth_of, family_of
from lgx.results.compute import Curves
from lgx.results.metrics import heading, in_words
from lgx.results.report import ReportFigure, Section
from lgx.results.statistics import Summary
from lgx.results.tables import measured, state

_Line = Sequence[tuple[float, Summary]]
_MARKERS = "osD^vPX*<>ph"
_MOST_PANELS = 4


def size_section(rows: Sequence[Row], metric: str) -> Section | None:
    """The metric against depth, a panel for each number of epochs; None without two depths of one family.

    Args:
        rows: Rows of one metric and one split.
        metric: That metric.
    """
    groups: dict[tuple[str, str], dict[str, dict[str, list[tuple[float, Summary]]]]] = {}
    for entry in sorted(
        measured(rows, metric), key=lambda e: (e.task, e.epochs or 0, architecture_order(e.architecture))
    ):
        depth = depth_of(entry.architecture)
        if depth is not None and entry.summary:
            states = groups.setdefault((entry.task, family_of(entry.architecture)), {})
            states.setdefault(state(entry.epochs), {}).setdefault(entry.method, []).append((depth, entry.summary))
    figures: list[ReportFigure] = []
    for (task, family), of_group in groups.items():
        panels = {name: {m: line for m, line in lines.items() if len(line) > 1} for name, lines in of_group.items()}
        curved = [name for name, lines in panels.items() if lines][-_MOST_PANELS:]
        if curved:
            title = f"{task}, {family}: {in_words(metric)} against depth"
            name = f"depth-{len(figures)}"
            figures.append(_figure(name, title, {name: panels[name] for name in curved}, "depth (layers)", metric))
    return Section(f"{in_words(metric).capitalize()} against depth", figures=figures) if figures else None


def compute_section(curves: Curves, metric: str) -> Section:
    """The metric against all compute, a figure for each task and a panel for each network."""
    figures = []
    for task in sorted({task for of_method in curves.values() for task, _ in of_method}):
        panels: dict[str, dict[str, _Line]] = {}
        for method, of_method in curves.items():
            for place, curve in of_method.items():
                line = [(point.flops / 1e12, point.summary) for point in curve if point.flops]
                if place[0] == task and line:
                    panels.setdefault(place[1], {})[method] = line
        title = f"{task}: {in_words(metric)} against compute, which includes the share of sources"
        figures.append(_figure(f"compute-{task}", title, panels, "compute (TFLOP)", metric))
    return Section(f"{in_words(metric).capitalize()} against compute", figures=figures)


def _figure(name: str, title: str, panels: Mapping[str, Mapping[str, _Line]], unit: str, metric: str) -> ReportFigure:
    """Lines with intervals, a panel for each name."""
    methods = sorted({method for lines in panels.values() for method in lines}, key=method_order)
    figure, all_axes = make_panels(len(panels), legend=0.8 + 0.08 * max(map(len, methods)))
    for axes, (panel, lines) in zip(all_axes, panels.items(), strict=True):
        for number, method in enumerate(methods):
            _draw(axes, method, lines.get(method, ()), number)
        if unit.startswith("depth"):
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        else:
            log_ticks(axes)
        axes.set_title(plain(panel), fontsize="small", wrap=True)
        axes.set_xlabel(unit)
        axes.set_ylabel(plain(heading(metric)))
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False)
    caption = f"{title}. Means over seeds; bars are 95 % intervals, single seeds have none."
    label = f"{title}, methods {', '.join(methods)}"
    return ReportFigure(name, to_svg(figure, name), label, caption)


def _draw(axes: Axes, method: str, line: _Line, number: int) -> None:
    axes.errorbar(
        [x for x, _ in line],
        [summary.mean for _, summary in line],
        yerr=[summary.half_width or 0.0 for _, summary in line],
        label=plain(method), color=f"C{number % 10}", marker=_MARKERS[number % len(_MARKERS)],
        markersize=5, capsize=2.5, linewidth=1.4,
    )  # fmt: skip
