"""The figures of a report, as sections."""

from collections import Counter
from collections.abc import Mapping, Sequence

from lgx.components.figures import to_svg
from lgx.core.rows import Row
from lgx.results.architecture_names import architecture_order, depth_of, family_of
from lgx.results.curves import Place, Seeds
from lgx.results.figures import curve_figure, depth_figure
from lgx.results.looks import Style, method_order
from lgx.results.sections import Drawing, Section
from lgx.results.tables import Entry, measured


def depth_section(rows: Sequence[Row], metric: str, looks: Mapping[str, Style]) -> Section | None:
    """The metric against depth, a figure for each task and family of architectures with two depths; None without such.

    Args:
        rows: Rows of one metric and one split.
        metric: That metric.
        looks: Style of every method.
    """
    groups: dict[tuple[str, str], list[Entry]] = {}
    entries = [entry for entry in measured(rows, metric) if depth_of(entry.architecture) is not None]
    for entry in sorted(entries, key=lambda e: (e.task, architecture_order(e.architecture))):
        groups.setdefault((entry.task, family_of(entry.architecture)), []).append(entry)
    drawings: list[Drawing] = []
    for (task, family), everything in groups.items():
        # Single networks, such as the ancestor, are no curve; epochs with single networks alone get no panel.
        measurements = Counter((entry.epochs, entry.method) for entry in everything)
        curved = {epochs for (epochs, _), count in measurements.items() if count > 1}
        group = [entry for entry in everything if entry.epochs in curved]
        if group:
            methods = ", ".join(sorted({entry.method for entry in group}, key=method_order))
            svg = to_svg(depth_figure(group, metric, looks), f"depth{len(drawings)}")
            label = f"{metric} against depth, task {task}, architectures {family}, methods {methods}"
            drawings.append(Drawing(svg, label, f"{task}, {family}: mean over seeds, bars are 95 % intervals."))
    return Section(f"{metric} against depth", drawings=drawings) if drawings else None


def curve_section(curves: Mapping[Place, Mapping[str, Seeds]], looks: Mapping[str, Style]) -> Section | None:
    """Training curves, a figure for each task and architecture; None without curves.

    Args:
        curves: Curves by task and architecture, then by method.
        looks: Style of every method.
    """
    drawings: list[Drawing] = []
    for task, architecture in sorted(curves, key=lambda place: (place[0], architecture_order(place[1]))):
        methods = curves[task, architecture]
        figure = curve_figure({method: list(seeds.values()) for method, seeds in methods.items()}, looks)
        names = ", ".join(sorted(methods, key=method_order))
        drawings.append(
            Drawing(
                to_svg(figure, f"curve{len(drawings)}"),
                f"training curves, task {task}, architecture {architecture}, methods {names}",
                f"{task}, {architecture}: mean over seeds, the band is their range.",
            )
        )
    return Section("Training curves", drawings=drawings) if drawings else None
