"""Figures of a comparison and their captions: averages, a metric against depth, and training curves."""

import csv
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lgx.components.figures import make_panels, plain, step_ticks, to_svg, whole_ticks
from lgx.core.rows import Row
from lgx.methods.spec import GRAY
from lgx.results.architecture_names import architecture_order, depth_of, family_of
from lgx.results.looks import Style, method_order
from lgx.results.merging import Place
from lgx.results.metrics import in_words, is_share, lower_is_better, scale_of, with_unit
from lgx.results.report import ReportFigure, Section
from lgx.results.standings import Standing
from lgx.results.tables import Entry, measured, state

_T = TypeVar("_T")
_MOST_PANELS = 4
_TAGS = ("val/acc", "val/loss", "train/loss")
"""Order of the panels of curves; those of other metrics come first."""
FRONT = "front.csv"
"""File of a run with what it measured of many sizes."""
_MOST_MARKERS = 30
"""Largest number of points with markers; longer curves are plain lines."""
_SPLITS = {"val": "validation", "train": "training", "test": "test"}


def add_legend(figure: Figure, lines: Sequence[Style]) -> None:
    """Explain the lines to the right of the panels."""
    marks = [Line2D([], [], color=s.color, linestyle=s.dash, marker=s.marker, markersize=5) for s in lines]
    figure.legend(marks, [plain(style.label) for style in lines], loc="outside right upper", frameon=False)


def legend_width(lines: Iterable[Style]) -> float:
    """Inches that the longest label needs."""
    return max(1.6, 0.6 + 0.08 * max(len(style.label) for style in lines))


def average_figure(
    found: Sequence[Standing], looks: Mapping[str, Style], levels: Mapping[str, float]
) -> ReportFigure | None:
    """The averages as dots with intervals, a panel for each number of epochs; None without a comparison."""
    shown = _few([standing for standing in found if len(standing.values) > 1])
    if not shown:
        return None
    names = max(len(looks[method].label) for standing in shown for method in standing.values)
    lines = max(len(standing.values) for standing in shown)
    figure, panels = make_panels(len(shown), legend=0, size=(2.6 + 0.07 * min(names, 34), 1.1 + 0.26 * lines))
    chances = [standing.chance(levels) for standing in shown]
    for axes, standing, chance in zip(panels, shown, chances, strict=True):
        for place, method in enumerate(reversed(standing.ranking)):
            summary, look = standing.summary(method), looks[method]
            axes.errorbar(
                summary.mean, place, xerr=summary.half_width or 0.0, color=look.color, marker=look.marker,
                markersize=6, capsize=3, linewidth=1.6,
            )  # fmt: skip
        axes.set_yticks(range(len(standing.values)), [plain(looks[m].label) for m in reversed(standing.ranking)])
        axes.set_ylim(-0.6, len(standing.values) - 0.4)
        axes.set_title(state(standing.epochs))
        axes.set_xlabel(_quantity(standing.metric))
        _mark_chance(axes, chance, vertical=True)
    ranks = "; ".join(f"{state(s.epochs)}: {', '.join(looks[m].label for m in s.ranking)}" for s in shown)
    metric, seeds = shown[0].metric, [standing.summary(m).n for standing in shown for m in standing.values]
    better = "left" if lower_is_better(metric) else "right"
    caption = f"See which method is farthest to the {better}{_apart(seeds)}.{_spread(seeds)}"
    caption += " A dashed line near the dots is chance." if any(c is not None for c in chances) else ""
    label = f"averages of {in_words(metric)}, the best first; {ranks}"
    return ReportFigure("averages", to_svg(figure, "averages"), label, caption)


def depth_section(
    rows: Sequence[Row], metric: str, looks: Mapping[str, Style], levels: Mapping[str, float]
) -> Section | None:
    """The metric against depth, a figure for each task and family of architectures with two depths; None without such.

    Args:
        rows: Rows of one metric and one split.
        metric: That metric.
        looks: Style of every method.
        levels: Chance levels by task.
    """
    groups: dict[tuple[str, str], list[Entry]] = {}
    entries = [entry for entry in measured(rows, metric) if depth_of(entry.architecture) is not None]
    for entry in sorted(entries, key=lambda e: (e.task, architecture_order(e.architecture))):
        groups.setdefault((entry.task, family_of(entry.architecture)), []).append(entry)
    figures: list[ReportFigure] = []
    for (task, family), everything in groups.items():
        # Single networks, such as the ancestor, are not curves; epochs with only single networks get no panel.
        measurements = Counter((entry.epochs, entry.method) for entry in everything)
        curved = {epochs for (epochs, _), count in measurements.items() if count > 1}
        if group := [entry for entry in everything if entry.epochs in curved]:
            figures.append(_depth_figure(f"depth-{len(figures)}", f"{task}, {family}", group, looks, metric, levels))
    return Section(f"{in_words(metric).capitalize()} against depth", figures=figures) if figures else None


Curve = dict[int, float]
"""Value by number of epochs, ascending."""


def curves_of_runs(rows: Iterable[Row], metric: str, split: str) -> dict[Place, dict[str, dict[str, dict[int, Curve]]]]:
    """Curves over the epochs of runs that trained one descendant; of several runs with one seed, the longest curve.

    Args:
        rows: Rows of the runs, of any metric and split.
        metric: Metric to read; both splits' losses are read too.
        split: Split that is compared; of ``train`` the metric alone is read.

    Returns:
        Curves by task and architecture, then by tag (``val/loss``), method and seed.
    """
    tags = {f"train/{metric}"} if split == "train" else {f"val/{metric}", *_TAGS[1:]}
    found: dict[Place, dict[str, dict[str, dict[int, Curve]]]] = {}
    for _, of_run in groupby(sorted(rows, key=lambda row: (row.run, row.epochs)), lambda row: row.run):
        curves: dict[str, Curve] = {}
        trained = set()
        for row in of_run:
            trained.add((row.task, row.architecture, row.method, row.seed))
            curves.setdefault(f"{row.split}/{row.metric}", {})[row.epochs] = row.value
        (task, architecture, method, seed), *others = trained
        for tag, curve in curves.items() if not others else ():
            if tag in tags and len(curve) > 1:  # a point is no curve
                seeds = found.setdefault((task, architecture), {}).setdefault(tag, {}).setdefault(method, {})
                seeds[seed] = max(seeds.get(seed, curve), curve, key=max)
    return found


def curve_section(
    curves: Mapping[Place, Mapping[str, Mapping[str, Mapping[int, Curve]]]], looks: Mapping[str, Style]
) -> Section | None:
    """Training curves, a figure for each task and architecture and a panel for each scalar; None without curves.

    Args:
        curves: What :func:`curves_of_runs` found.
        looks: Style of every method.
    """
    figures: list[ReportFigure] = []
    for task, architecture in sorted(curves, key=lambda place: (place[0], architecture_order(place[1]))):
        found = curves[task, architecture]
        tags = sorted(found, key=lambda tag: (_TAGS.index(tag) if tag in _TAGS else -1, tag))
        methods = sorted({method for of_tag in found.values() for method in of_tag}, key=method_order)
        lines = [looks[method] for method in methods]
        figure, panels = make_panels(len(tags), legend=legend_width(lines))
        for axes, tag in zip(panels, tags, strict=True):
            split, _, metric = tag.partition("/")
            for method, look in zip(methods, lines, strict=True):
                _draw_curve(axes, [*found[tag].get(method, {}).values()], look, scale_of(metric))
            axes.set_title(plain(f"{_SPLITS.get(split, split)} {_quantity(metric)}"))
            axes.set_xlabel("training epoch")
            step_ticks(axes)
        add_legend(figure, lines)
        is_single = max(len(seeds) for of_tag in found.values() for seeds in of_tag.values()) == 1
        over = "One seed each." if is_single else "Lines are means over seeds, bands their range."
        label = f"training curves, task {task}, architecture {architecture}, methods {', '.join(methods)}"
        caption = f"{task}, {architecture}. See which line leads early, and which at the end. {over}"
        name = f"curves-{len(figures)}"
        figures.append(ReportFigure(name, to_svg(figure, name), label, caption))
    return Section("Training curves", figures=figures) if figures else None


def front_section(files: Iterable[Path]) -> Section | None:
    """The sizes of runs that measured many: a panel for each metric in validation; None without such runs.

    Args:
        files: Results files; the sizes are in ``front.csv`` beside them.
    """
    found = [file.with_name(FRONT) for file in files if file.with_name(FRONT).is_file()]
    fronts = {file.parent: [*csv.DictReader(file.read_text(encoding="utf-8").splitlines())] for file in found}
    columns = sorted({name for sizes in fronts.values() for name in sizes[0] if name.startswith("val_")})
    if not columns:
        return None
    figure, panels = make_panels(len(columns), legend=2.4)
    for axes, column in zip(panels, columns, strict=True):
        metric = column.removeprefix("val_")
        for folder, sizes in fronts.items():
            if column in sizes[0]:
                x = [int(size["parameters"]) / 1e6 for size in sizes]
                y = [scale_of(metric) * float(size[column]) for size in sizes]
                best = [pair for pair, size in zip(zip(x, y, strict=True), sizes, strict=True) if size["best"] == "1"]
                (line,) = axes.plot(*zip(*best, strict=True), label=plain(f"{folder.parent.name}/{folder.name}"))
                axes.scatter(x, y, s=10, color=line.get_color())
        axes.set_xlabel("parameters (millions)")
        axes.set_ylabel(_quantity(metric))
    figure.legend(loc="outside right upper", frameon=False)
    caption = "See which sizes are enough. A line joins the sizes that are better in validation than every smaller one."
    label = f"validation against parameters, runs {', '.join(folder.parent.name for folder in fronts)}"
    return Section("Sizes of a run", figures=[ReportFigure("sizes", to_svg(figure, "sizes"), label, caption)])


def _depth_figure(
    name: str,
    where: str,
    entries: Sequence[Entry],
    looks: Mapping[str, Style],
    metric: str,
    levels: Mapping[str, float],
) -> ReportFigure:
    """Draw a metric against depth, a panel for each number of epochs (at most four: the smallest and the largest)."""
    shown = _few(sorted({entry.epochs or 0 for entry in entries}))
    methods, chance = sorted({entry.method for entry in entries}, key=method_order), levels.get(entries[0].task)
    lines = [looks[method] for method in methods]
    figure, panels = make_panels(len(shown), share_y=True, legend=legend_width(lines))
    for axes, count in zip(panels, shown, strict=True):
        for method, look in zip(methods, lines, strict=True):
            drawn_entries = [entry for entry in entries if entry.method == method and (entry.epochs or 0) == count]
            points = sorted((depth_of(e.architecture) or 0, e.summary) for e in drawn_entries if e.summary is not None)
            if points:
                axes.errorbar(
                    [depth for depth, _ in points],
                    [summary.mean for _, summary in points],
                    yerr=[summary.half_width or 0.0 for _, summary in points],
                    color=look.color, linestyle=look.dash, marker=look.marker, markersize=5, capsize=2.5, linewidth=1.6,
                )  # fmt: skip
        axes.set_title(state(count))
        axes.set_xlabel("depth (layers)")
        axes.set_ylabel(_quantity(metric))
        whole_ticks(axes, (depth_of(entry.architecture) or 0 for entry in entries))
    for axes in panels:
        _mark_chance(axes, chance)
    add_legend(figure, lines)
    seeds = [entry.summary.n for entry in entries if entry.summary]
    best = "lowest" if lower_is_better(metric) else "highest"
    caption = f"{where}. See which line is {best}{_apart(seeds)}, and whether this holds at every depth."
    caption += _spread(seeds) + ("" if chance is None else f" Chance is {with_unit(chance, metric)}.")
    label = f"{metric} against depth, {where}, methods {', '.join(methods)}"
    return ReportFigure(name, to_svg(figure, name), label, caption)


def _draw_curve(axes: Axes, seeds: Sequence[Curve], look: Style, factor: float) -> None:
    """Draw the mean over seeds and their range, at the epochs that all of them have."""
    epochs = sorted(set.intersection(*map(set, seeds))) if seeds else []
    values = [[factor * curve[epoch] for curve in seeds] for epoch in epochs]
    marker = look.marker if len(epochs) <= _MOST_MARKERS else ""
    axes.plot(epochs, [*map(fmean, values)], color=look.color, linestyle=look.dash, marker=marker, markersize=4)
    if len(seeds) > 1:
        axes.fill_between(epochs, [*map(min, values)], [*map(max, values)], color=look.color, alpha=0.15, linewidth=0)


def _mark_chance(axes: Axes, chance: float | None, vertical: bool = False) -> None:
    """Draw a line at the chance level, unless it would compress the rest of the panel."""
    if chance is None:
        return
    low, high = axes.get_xlim() if vertical else axes.get_ylim()
    if low - (high - low) / 2 <= chance <= high:
        line = axes.axvline if vertical else axes.axhline
        line(chance, color=GRAY, linestyle=(0, (6, 3)), linewidth=1.0, zorder=1)


def _few(everything: Sequence[_T]) -> Sequence[_T]:
    """The first and the last values, one per panel."""
    return everything if len(everything) <= _MOST_PANELS else [everything[0], *everything[1 - _MOST_PANELS :]]


def _quantity(metric: str) -> str:
    """The label of a metric's axis: ``accuracy (%)``."""
    return plain(f"{in_words(metric)} (%)" if is_share(metric) else in_words(metric))


def _apart(seeds: Collection[int]) -> str:
    """The hint on intervals, if there are any."""
    return " and whether its bar overlaps the others" if max(seeds, default=1) > 1 else ""


def _spread(seeds: Collection[int]) -> str:
    """The meaning of the bars."""
    if max(seeds, default=1) == 1:
        return " One seed each: there are no bars, and nothing can be claimed."
    least, most = min(seeds), max(seeds)
    count = f"{most}" if least == most else f"{least} to {most}"
    return f" Means over {count} seeds; bars are 95 % intervals{', single seeds have none' if least == 1 else ''}."
