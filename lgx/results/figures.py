"""Figures as SVG: training curves, a metric against depth, a map of tasks, paths of a search."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lgx.results.curves import TAGS, Curve, over_seeds
from lgx.results.tables import PERCENT, Entry, depth_of, method_order, state

if TYPE_CHECKING:
    from lgx.methods.hypernetworks.task_map import TaskMap

Dash = Literal["-", "--", ":", "-."]
# Okabe and Ito's palette without its yellow, which is too faint on white, and with a grey.
_GREY, _BLACK, _ORANGE, _SKY = "#8c8c8c", "#000000", "#e69f00", "#56b4e9"
_GREEN, _BLUE, _RED, _PINK = "#009e73", "#0072b2", "#d55e00", "#cc79a7"
_COLORS = (_BLUE, _ORANGE, _GREEN, _RED, _PINK, _SKY, _BLACK, _GREY)
_DASHES: tuple[Dash, ...] = ("-", "--", ":", "-.")
_MARKERS = "osD^vPX*<>ph"
_KNOWN: dict[str, tuple[str, Dash]] = {
    "random": (_GREY, "-"),
    "trained": (_GREY, "--"),
    "pretrained": (_BLACK, "-"),
    "pretrain_finetune": (_BLACK, "--"),
    "ancestor": (_BLACK, ":"),
    "vanilla_lg": (_PINK, "-"),
    "weight_selection": (_ORANGE, "-"),
    "tleg": (_SKY, "-"),
    "mini_deit": (_SKY, "--"),
    "simple_lg": (_GREEN, "-"),
    "sws": (_BLUE, "-"),
    "sws_order2": (_BLUE, "--"),
    "sws_random_assigned": (_BLUE, ":"),
    "lsamd": (_RED, "-"),
    "ghn3": (_ORANGE, "--"),
    "ghn3_task": (_ORANGE, ":"),
    "logah": (_SKY, "-."),
    "tal": (_PINK, "--"),
    "tal_plus": (_RED, "--"),
    "tal_st": (_PINK, ":"),
    "tal_no_task": (_GREEN, ":"),
    "tal_no_ancestor": (_GREEN, "--"),
}
_MOST_PANELS = 4
_PANEL = (3.6, 3.3)  # inches
_LEGEND = 1.6  # inches
_LARGEST = 120  # square points


@dataclass(frozen=True)
class Style:
    """How a method is drawn, in every figure of a report."""

    color: str
    dash: Dash
    marker: str


def styles(methods: Iterable[str]) -> dict[str, Style]:
    """A style per method: always the same one for the methods of the papers, a free one for any other."""
    chosen = set(methods)
    looks = dict(_KNOWN)
    free = [(color, dash) for dash in reversed(_DASHES) for color in _COLORS if (color, dash) not in looks.values()]
    for i, method in enumerate(sorted(chosen - set(looks))):
        looks[method] = free[i % len(free)]
    order = {method: i for i, method in enumerate(looks)}
    return {method: Style(*looks[method], _MARKERS[order[method] % len(_MARKERS)]) for method in chosen}


def depth_figure(entries: Sequence[Entry], metric: str, looks: Mapping[str, Style]) -> Figure:
    """A metric against depth, a panel per number of epochs (at most four: the fewest, and the most).

    Args:
        entries: Entries of one task and one family of architectures, with a summary each.
        metric: What is drawn.
        looks: Style of every method.
    """
    epochs = sorted({entry.epochs or 0 for entry in entries})
    shown = epochs if len(epochs) <= _MOST_PANELS else [epochs[0], *epochs[1 - _MOST_PANELS :]]
    figure, panels = _panels(len(shown), share_y=True)
    for axes, count in zip(panels, shown, strict=True):
        for method in _methods(entries):
            points = sorted(
                (depth_of(entry.architecture) or 0, entry.summary)
                for entry in entries
                if entry.method == method and (entry.epochs or 0) == count and entry.summary is not None
            )
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
    panels[0].set_ylabel(f"{metric} (%)" if metric in PERCENT else metric)
    _legend(figure, _methods(entries), looks)
    return figure


def curve_figure(curves: Mapping[str, Sequence[Mapping[str, Curve]]], looks: Mapping[str, Style]) -> Figure:
    """Training curves of one architecture, a panel per scalar, mean over seeds with their range.

    Args:
        curves: For each method the curves of its seeds, by tag.
        looks: Style of every method.
    """
    recorded = {tag for seeds in curves.values() for seed in seeds for tag in seed}
    tags = sorted(recorded, key=lambda tag: (TAGS.index(tag) if tag in TAGS else -1, tag))
    figure, panels = _panels(len(tags), share_y=False)
    for axes, tag in zip(panels, tags, strict=True):
        percent = tag.partition("/")[2] in PERCENT
        factor = 100.0 if percent else 1.0
        for method in sorted(curves, key=method_order):
            seeds = [seed[tag] for seed in curves[method] if tag in seed]
            band = over_seeds(seeds) if seeds else None
            if band is None:
                continue
            look = looks[method]
            marker = look.marker if len(band.steps) <= 30 else ""
            mean = [factor * value for value in band.mean]
            axes.plot(band.steps, mean, color=look.color, linestyle=look.dash, marker=marker, markersize=4)
            if band.n > 1:
                low, high = [factor * value for value in band.low], [factor * value for value in band.high]
                axes.fill_between(band.steps, low, high, color=look.color, alpha=0.15, linewidth=0)
        axes.set_title(f"{tag} (%)" if percent else tag)
        axes.set_xlabel(next(seed[tag].unit for seeds in curves.values() for seed in seeds if tag in seed))
    _legend(figure, sorted(curves, key=method_order), looks)
    return figure


def task_figure(found: "TaskMap") -> Figure:
    """Embedded graphs in the plane, a color per task, the larger the more parameters (TAL, Fig. 3).

    Args:
        found: What is drawn.
    """
    figure, (axes,) = _panels(1, share_y=False)
    most = max(point.parameters for point in found.points)
    tasks = list(dict.fromkeys(point.task for point in found.points))
    colors = mpl.colormaps["tab10"] if len(tasks) <= 10 else mpl.colormaps["turbo"].resampled(len(tasks))
    for i, task in enumerate(tasks):
        points = [point for point in found.points if point.task == task]
        axes.scatter(
            [point.x for point in points],
            [point.y for point in points],
            s=[_LARGEST * point.parameters / most for point in points],
            color=colors(i), edgecolors="white", linewidths=0.5, alpha=0.8,
        )  # fmt: skip
    across, up = (f"{100 * share:.0f} % of the variance" for share in found.explained)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    if found.silhouette is not None:
        axes.set_title(f"silhouette by task {found.silhouette:.2f}")
    dots = [Line2D([], [], color=colors(i), linestyle="", marker="o") for i in range(len(tasks))]
    names = [_plain(task) for task in tasks]
    figure.legend(dots, names, title="size: parameters", loc="outside right upper", frameon=False)
    return figure


def routing_figure(found: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Heat maps of how much every data set prefers the base block of every layer, a panel per search.

    Args:
        found: Title -> data set -> value of each layer in [0, 1]. Those of at least 0.5, where the base block is used,
            carry a dot.
    """
    first = next(iter(found.values()))
    layers, height = len(next(iter(first.values()))), max(map(len, found.values()))
    size = (2.2 + 0.32 * layers * len(found), 1.3 + 0.32 * height)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for axes, (title, rows) in zip(panels, found.items(), strict=True):
        image = axes.imshow(list(rows.values()), vmin=0, vmax=1, cmap="RdBu", aspect="equal")
        used = [(x, y) for y, values in enumerate(rows.values()) for x, value in enumerate(values) if value >= 0.5]
        axes.scatter([x for x, _ in used], [y for _, y in used], s=9, color="white")
        axes.set_yticks(range(len(rows)), [_plain(task) for task in rows])
        axes.set_xticks(range(layers))
        axes.set_xlabel("layer of the ancestor")
        axes.set_title(_plain(title), fontsize="medium")
    figure.colorbar(image, ax=list(panels), label="base block preferred", shrink=0.8)
    return figure


def to_svg(figure: Figure, prefix: str) -> str:
    """The figure as one ``<svg>`` element to stand inside HTML, the same text for the same figure.

    Args:
        figure: The figure.
        prefix: Set before every id, so that figures in one page do not refer to each other's parts.
    """
    buffer = StringIO()
    with mpl.rc_context({"svg.hashsalt": prefix, "svg.fonttype": "none"}):
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=nothing, transparent=True)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<[^<>]*? id=")', rf"\1{prefix}-", svg)
    svg = re.sub(r'(xlink:href="#|url\(#)', rf"\1{prefix}-", svg)
    return svg.strip()


def _panels(count: int, share_y: bool) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(_PANEL[0] * count + _LEGEND, _PANEL[1]), layout="constrained")
    panels = [axes for row in figure.subplots(1, count, sharey=share_y, squeeze=False) for axes in row]
    for axes in panels:
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def _methods(entries: Sequence[Entry]) -> list[str]:
    return sorted({entry.method for entry in entries}, key=method_order)


def _legend(figure: Figure, methods: Sequence[str], looks: Mapping[str, Style]) -> None:
    lines = [
        Line2D([], [], color=looks[m].color, linestyle=looks[m].dash, marker=looks[m].marker, markersize=5)
        for m in methods
    ]
    figure.legend(lines, [_plain(method) for method in methods], loc="outside right upper", frameon=False)


def _plain(text: str) -> str:
    """Text that matplotlib neither reads as a formula nor, for a leading underscore, leaves out of a legend."""
    text = "".join(c if c.isprintable() else "\ufffd" for c in text).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text
