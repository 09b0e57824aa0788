"""Order, labels and line styles of methods in tables and figures."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from lgx.methods import registry
from lgx.methods.spec import BLACK, BLUE, GRAY, GREEN, ORANGE, PINK, RED, SKY, Dash

_COLORS = (BLUE, ORANGE, GREEN, RED, PINK, SKY, BLACK, GRAY)
_DASHES: tuple[Dash, ...] = ("-.", ":", "--", "-")
_MARKERS = "osD^vPX*<>ph"


@dataclass(frozen=True)
class Style:
    """How the figures of a report draw a method.

    Attributes:
        label: Text of the legend.
        color: Color, ``#rrggbb``.
        dash: Dash of the lines.
        marker: matplotlib's letter of the marker.
    """

    label: str
    color: str
    dash: Dash
    marker: str


def method_order(name: str) -> tuple[int, str]:
    """Sort key of a method: declared names in the registry's order, then others by name.

    Args:
        name: A name in results; ``sws (variant)`` has the place of ``sws``.
    """
    declared = list(registry.looks())
    known = name.partition(" (")[0]
    return declared.index(known) if known in declared else len(declared), name


def label_of(name: str) -> str:
    """Words for a legend: the declared label, or the name itself."""
    looks, known = registry.looks(), name
    while known not in looks and "_" in known:
        known = known.rpartition("_")[0]
    if known not in looks:
        return name
    rest = name.removeprefix(known).strip("_").replace("_", " ")
    return f"{looks[known].label}, {rest}" if rest else looks[known].label


def styles(names: Iterable[str]) -> dict[str, Style]:
    """Styles of methods in their order: the declared one, or one that no method declares."""
    chosen = dict.fromkeys(names)
    looks = {name: (look.label, look.color, look.dash) for name, look in registry.looks().items() if look.color}
    taken = {(color, dash) for _, color, dash in looks.values()}
    free = [(color, dash) for dash, color in product(_DASHES, _COLORS) if (color, dash) not in taken]
    free = free or list(product(_COLORS, _DASHES))
    for i, name in enumerate(sorted(chosen.keys() - looks.keys())):
        looks[name] = (name, *free[i % len(free)])
    markers = {name: _MARKERS[i % len(_MARKERS)] for i, name in enumerate(looks)}
    return {name: Style(*looks[name], markers[name]) for name in chosen}
