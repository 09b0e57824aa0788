"""The paths of a selection: as a figure, and as a table."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lgx.methods.lsamd.selection import Selection

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def routing_figure(preferences: Mapping[str, Mapping[str, Sequence[float]]]) -> "Figure":
    """Draw a heat map for each selection: a row for each data set, a column for each layer (LSAMD, Fig. 7).

    Args:
        preferences: Title -> data set -> preference of the base block in each layer, in [0, 1]. Values of at least 0.5,
            where the base block is used, are marked with a dot.
    """
    from matplotlib.figure import Figure

    from lgx.components.figures import plain

    first = next(iter(preferences.values()))
    layers, height = len(next(iter(first.values()))), max(map(len, preferences.values()))
    size = (2.2 + 0.32 * layers * len(preferences), 1.3 + 0.32 * height)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(preferences), squeeze=False)[0]
    for axes, (title, rows) in zip(panels, preferences.items(), strict=True):
        image = axes.imshow(list(rows.values()), vmin=0, vmax=1, cmap="RdBu", aspect="equal")
        used = [(x, y) for y, values in enumerate(rows.values()) for x, value in enumerate(values) if value >= 0.5]
        axes.scatter([x for x, _ in used], [y for _, y in used], s=9, color="white")
        axes.set_yticks(range(len(rows)), [plain(task) for task in rows])
        axes.set_xticks(range(layers))
        axes.set_xlabel("layer of the ancestor")
        axes.set_title(plain(title), fontsize="medium")
    figure.colorbar(image, ax=list(panels), label="base block preferred", shrink=0.8)
    return figure


def path_lines(selection: Selection) -> list[list[str]]:
    """Lines of a table: for each data set ``●`` where a layer uses its base block, then the number of data sets."""
    lines = [[name, *("●" if base else "·" for base in used)] for name, used in selection.paths.items()]
    return [*lines, ["usage", *map(str, selection.usage)]]
