"""Ticks of the horizontal axis whose labels do not overlap."""

from collections.abc import Iterable
from itertools import pairwise
from math import log10

from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

_CLOSEST = 0.05
"""Smallest distance of two ticks for each digit of their labels, as a share of the axis."""


def whole_ticks(axes: Axes, values: Iterable[int]) -> None:
    """Put ticks of the horizontal axis at whole numbers: at the values themselves where their labels do not overlap."""
    places = sorted(set(values))
    gaps = [high - low for low, high in pairwise(places)]
    if len(places) < 2 or min(gaps) / (places[-1] - places[0]) > _CLOSEST * len(str(places[-1])):
        axes.set_xticks(places)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def step_ticks(axes: Axes) -> None:
    """Put few ticks, with short labels, at whole numbers of the horizontal axis: ``5 k``."""
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(EngFormatter())


def log_ticks(axes: Axes) -> None:
    """Make the horizontal axis logarithmic, with labels that do not overlap."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    decades = log10(high / low)
    subs = (1.0, 2.0, 5.0) if decades < 2 else (1.0,)
    few = MaxNLocator(4)  # within half a decade powers and their multiples are too rare
    axes.xaxis.set_major_locator(few if decades < 0.5 else LogLocator(subs=subs, numticks=7))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:g}" if 1e-3 < value < 1e5 else f"{value:.0e}")
    )
    axes.xaxis.set_minor_formatter(NullFormatter())
