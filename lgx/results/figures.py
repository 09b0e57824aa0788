"""Figures of a comparison: averages, training curves, and a metric against depth."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lgx.components.figures import make_panels, plain
from lgx.components.ticks import step_ticks, whole_ticks
from lgx.methods.spec import GRAY
from lgx.results.architecture_names import depth_of
from lgx.results.curves import TAGS, Curve, over_seeds
from lgx.results.looks import Style, method_order
from lgx.results.metrics import in_words, is_share, scale_of
from lgx.results.standings import Standing
from lgx.results.tables import Entry, state

MOST_PANELS = 4
_MOST_MARKERS = 30
"""Points of a curve that are marked one by one; longer curves are plain lines."""
_SPLITS = {"val": "validation", "train": "training", "test": "test"}


def average_figure(shown: Sequence[Standing], looks: Mapping[str, Style], chances: Sequence[float | None]) -> Figure:
    """Draw the averages of methods as dots with intervals, a panel for each number of epochs.

    Args:
        shown: Standings, at most four.
        looks: Style of every method.
        chances: Chance level of each; None where unknown.
    """
    names = max(len(looks[method].label) for standing in shown for method in standing.values)
    lines = max(len(standing.values) for standing in shown)
    figure, panels = make_panels(len(shown), legend=0, size=(2.6 + 0.07 * min(names, 34), 1.1 + 0.26 * lines))
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
        axes.set_xlabel(quantity(standing.metric))
        _mark_chance(axes, chance, vertical=True)
    return figure


def depth_figure(
    entries: Sequence[Entry], metric: str, looks: Mapping[str, Style], chance: float | None = None
) -> Figure:
    """Draw a metric against depth, a panel for each number of epochs (at most four: the smallest and the largest).

    Args:
        entries: Entries of one task and one family of architectures, with a summary each.
        metric: The metric.
        looks: Style of every method.
        chance: Chance level; None where unknown.
    """
    epochs = sorted({entry.epochs or 0 for entry in entries})
    shown = epochs if len(epochs) <= MOST_PANELS else [epochs[0], *epochs[1 - MOST_PANELS :]]
    methods = sorted({entry.method for entry in entries}, key=method_order)
    figure, panels = make_panels(len(shown), share_y=True, legend=_legend_width(methods, looks))
    for axes, count in zip(panels, shown, strict=True):
        for method in methods:
            own = [entry for entry in entries if entry.method == method and (entry.epochs or 0) == count]
            points = sorted((depth_of(e.architecture) or 0, e.summary) for e in own if e.summary is not None)
            if points:
                look = looks[method]
                axes.errorbar(
                    [depth for depth, _ in points],
                    [summary.mean for _, summary in points],
                    yerr=[summary.half_width or 0.0 for _, summary in points],
                    color=look.color, linestyle=look.dash, marker=look.marker, markersize=5, capsize=2.5, linewidth=1.6,
                )  # fmt: skip
        axes.set_title(state(count))
        axes.set_xlabel("depth (layers)")
        axes.set_ylabel(quantity(metric))
        whole_ticks(axes, (depth_of(entry.architecture) or 0 for entry in entries))
    for axes in panels:
        _mark_chance(axes, chance)
    _legend(figure, methods, looks)
    return figure


def curve_figure(curves: Mapping[str, Sequence[Mapping[str, Curve]]], looks: Mapping[str, Style]) -> Figure:
    """Draw the training curves of one architecture, a panel for each scalar: the mean over seeds and their range.

    Args:
        curves: For each method the curves of its seeds, by tag.
        looks: Style of every method.
    """
    recorded = {tag for seeds in curves.values() for seed in seeds for tag in seed}
    tags = sorted(recorded, key=lambda tag: (TAGS.index(tag) if tag in TAGS else -1, tag))
    methods = sorted(curves, key=method_order)
    figure, panels = make_panels(len(tags), legend=_legend_width(methods, looks))
    for axes, tag in zip(panels, tags, strict=True):
        _, _, metric = tag.partition("/")
        for method in methods:
            _draw_curve(axes, [seed[tag] for seed in curves[method] if tag in seed], looks[method], scale_of(metric))
        axes.set_title(plain(tag_words(tag)))
        unit = next(seed[tag].unit for seeds in curves.values() for seed in seeds if tag in seed)
        axes.set_xlabel(f"training {unit}")
        step_ticks(axes)
    _legend(figure, methods, looks)
    return figure


def tag_words(tag: str) -> str:
    """A scalar's tag in words: ``validation accuracy (%)``."""
    split, _, metric = tag.partition("/")
    return f"{_SPLITS.get(split, split)} {quantity(metric)}"


def quantity(metric: str) -> str:
    """The label of a metric's axis: ``accuracy (%)``."""
    return plain(f"{in_words(metric)} (%)" if is_share(metric) else in_words(metric))


def _draw_curve(axes: Axes, seeds: Sequence[Curve], look: Style, factor: float) -> None:
    band = over_seeds(seeds) if seeds else None
    if band is None:
        return
    marker = look.marker if len(band.steps) <= _MOST_MARKERS else ""
    mean = [factor * value for value in band.mean]
    axes.plot(band.steps, mean, color=look.color, linestyle=look.dash, marker=marker, markersize=4)
    if band.n > 1:
        low, high = [factor * value for value in band.low], [factor * value for value in band.high]
        axes.fill_between(band.steps, low, high, color=look.color, alpha=0.15, linewidth=0)


def _mark_chance(axes: Axes, chance: float | None, vertical: bool = False) -> None:
    """Draw a line at the chance level, unless it would press everything else together."""
    if chance is None:
        return
    low, high = axes.get_xlim() if vertical else axes.get_ylim()
    if low - (high - low) / 2 <= chance <= high:
        line = axes.axvline if vertical else axes.axhline
        line(chance, color=GRAY, linestyle=(0, (6, 3)), linewidth=1.0, zorder=1)


def _legend_width(methods: Sequence[str], looks: Mapping[str, Style]) -> float:
    """Inches that the longest label needs."""
    return max(1.6, 0.6 + 0.075 * max(len(looks[method].label) for method in methods))


def _legend(figure: Figure, methods: Sequence[str], looks: Mapping[str, Style]) -> None:
    chosen = [looks[method] for method in methods]
    lines = [Line2D([], [], color=look.color, linestyle=look.dash, marker=look.marker, markersize=5) for look in chosen]
    figure.legend(lines, [plain(look.label) for look in chosen], loc="outside right upper", frameon=False)
