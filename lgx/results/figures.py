"""Figures of a comparison: training curves, and a metric against depth."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lgx.components.figures import make_panels, plain
from lgx.results.architecture_names import depth_of
from lgx.results.curves import TAGS, Curve, over_seeds
from lgx.results.looks import Style, method_order
from lgx.results.metrics import heading, scale_of
from lgx.results.tables import Entry, state

_MOST_PANELS = 4
_MOST_MARKERS = 30
"""Points of a curve that are marked one by one; longer curves are plain lines."""


def depth_figure(entries: Sequence[Entry], metric: str, looks: Mapping[str, Style]) -> Figure:
    """Draw a metric against depth, a panel for each number of epochs (at most four: the smallest and the largest).

    Args:
        entries: Entries of one task and one family of architectures, with a summary each.
        metric: The metric.
        looks: Style of every method.
    """
    epochs = sorted({entry.epochs or 0 for entry in entries})
    shown = epochs if len(epochs) <= _MOST_PANELS else [epochs[0], *epochs[1 - _MOST_PANELS :]]
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
        axes.set_xticks(sorted({depth_of(entry.architecture) or 0 for entry in entries}))
    panels[0].set_ylabel(plain(heading(metric)))
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
        split, _, metric = tag.partition("/")
        for method in methods:
            _draw_curve(axes, [seed[tag] for seed in curves[method] if tag in seed], looks[method], scale_of(metric))
        axes.set_title(plain(f"{split}/{heading(metric)}"))
        axes.set_xlabel(next(seed[tag].unit for seeds in curves.values() for seed in seeds if tag in seed))
    _legend(figure, methods, looks)
    return figure


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


def _legend_width(methods: Sequence[str], looks: Mapping[str, Style]) -> float:
    """Inches that the longest label needs."""
    return max(1.6, 0.6 + 0.075 * max(len(looks[method].label) for method in methods))


def _legend(figure: Figure, methods: Sequence[str], looks: Mapping[str, Style]) -> None:
    chosen = [looks[method] for method in methods]
    lines = [Line2D([], [], color=look.color, linestyle=look.dash, marker=look.marker, markersize=5) for look in chosen]
    figure.legend(lines, [plain(look.label) for look in chosen], loc="outside right upper", frameon=False)
