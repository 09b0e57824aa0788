"""What all figures share: panels, text that matplotlib shows as it is, SVG."""

import re
from io import StringIO
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lgx.core.files import atomic_path
from lgx.core.outputs import begins_with

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
    figure = Figure(figsize=(_PANEL[0] * count + legend, _PANEL[1]), layout="constrained")
    panels = [axes for row in figure.subplots(1, count, sharey=share_y, squeeze=False) for axes in row]
    for axes in panels:
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
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


def write_svg(figure: Figure, path: str | Path, prefix: str, writer: str = "") -> None:
    """Write a figure to an SVG file, atomically.

    Args:
        figure: The figure.
        path: The file.
        prefix: See :func:`to_svg`.
        writer: The command that draws it, see :func:`is_svg_of`.
    """
    mark = _mark(writer) if writer else ""
    with atomic_path(path) as temporary:
        temporary.write_text(mark + to_svg(figure, prefix), encoding="utf-8")


def is_svg_of(path: Path, writer: str) -> bool:
    """Whether a command drew an SVG file."""
    return begins_with(path, _mark(writer))


def _mark(writer: str) -> str:
    return f"<!-- written by {writer} -->\n"
