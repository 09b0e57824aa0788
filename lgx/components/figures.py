"""What all figures share: panels, ticks, text that matplotlib shows as it is, SVG."""

import re
from io import StringIO
from math import log10
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from lgx.host.files import atomic_path

_PANEL = (3.6, 3.3)
"""Width and height of a panel, inches."""


def make_panels(count: int, share_y: bool = False, legend: float = 1.6) -> tuple[Figure, list[Axes]]:
    """Make a figure of panels side by side, with room for a legend to their right.

    Args:
        count: Number of panels.
        share_y: Whether the panels have one vertical axis.
        legend: Width of the legend, inches.

    Returns:
        The figure and its panels.
    """
    width, height = _PANEL
    figure = Figure(figsize=(width * count + legend, height), layout="constrained")
    panels = list(figure.subplots(1, count, sharey=share_y, squeeze=False).flat)
    for axes in panels:
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelleft=True)
    return figure, panels


def plain(text: str) -> str:
    """Text that matplotlib does not read as a formula and, despite a leading underscore, shows in a legend."""
    text = "".join(c if c.isprintable() else "\ufffd" for c in text).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def to_svg(figure: Figure, prefix: str) -> str:
    """The figure as one ``<svg>`` element to stand inside HTML, the same text for the same figure.

    Args:
        figure: The figure.
        prefix: Set before every id, so that figures of one page do not refer to each other's parts.
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


def write_svg(figure: Figure, path: str | Path, prefix: str, mark: str = "") -> None:
    """Write a figure to an SVG file, atomically; a mark before it may tell who wrote it.

    The prefix is that of :func:`to_svg`.
    """
    with atomic_path(path) as temporary:
        temporary.write_text(mark + to_svg(figure, prefix), encoding="utf-8")


def log_ticks(axes: Axes) -> None:
    """Make the horizontal axis logarithmic, with labels that do not overlap."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    decades = log10(high / low)
    subs = (1.0, 2.0, 5.0) if decades < 2 else (1.0,)
    few = MaxNLocator(4)  # half a decade has too few powers and multiples
    axes.xaxis.set_major_locator(few if decades < 0.5 else LogLocator(subs=subs, numticks=7))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:g}" if 1e-3 < value < 1e5 else f"{value:.0e}")
    )
    axes.xaxis.set_minor_formatter(NullFormatter())
