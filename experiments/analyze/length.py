"""How accuracy and lead of TAL move with the steps of its hypernetwork (``experiments/tal/length.yaml``)."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from statistics import fmean
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lgx.components.figures import make_panels
from lgx.core.rows import Row
from lgx.errors import UserError
from lgx.results.report import EMPTY_CELL, piped
from lgx.results.statistics import Summary, paired_difference, summarize

PAPER_LEAD = 24.4
"""Lead of TAL over LoGAH before training, mean over tasks and networks (TAL, Table 2), points."""
_BLACK, _GRAY, _PINK, _SKY = "#000000", "#8c8c8c", "#cc79a7", "#56b4e9"
_COLORS = {"tal": _PINK, "logah": _SKY}
_DASHES = {"aligned": "-", "official": "--"}
_NAME = re.compile(r"(tal|logah)_(official|aligned)_(\d+)")

Seeds = dict[int, float]
_Values = dict[int, dict[str, list[float]]]


class Key(NamedTuple):
    """A point of the figure: a method in a layout with a number of steps, before or after its descendants' training."""

    method: str
    layout: str
    steps: int
    is_trained: bool


def means_of(rows: Iterable[Row]) -> tuple[dict[Key, Seeds], dict[bool, Seeds]]:
    """Test accuracy in percent by seed, of each point and of random starts: mean over the tasks of random starts.

    A seed counts as soon as it has all of these tasks.

    Raises:
        UserError: If there are no rows of such runs.
    """
    tested = [row for row in rows if (row.split, row.metric) == ("test", "acc")]
    tasks = {row.task for row in tested if row.method == "random"}
    points: dict[Key, _Values] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    random: dict[bool, _Values] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in (row for row in tested if row.task in tasks):
        if row.method == "random":
            random[row.epochs > 0][row.seed][row.task].append(100 * row.value)
        elif found := _NAME.fullmatch(row.method):
            # Untrained, the run of the hypernetwork has tested it in all sizes, and that of the descendant in one.
            if row.epochs or "/tal-" in row.run or "/logah-" in row.run:
                key = Key(found[1], found[2], int(found[3]), row.epochs > 0)
                points[key][row.seed][row.task].append(100 * row.value)
    if not points or not random:
        raise UserError("--rows: has no rows of experiments/tal/length.yaml; give the file that its sweep wrote")
    means = {key: _means(values, tasks) for key, values in points.items()}
    return {key: seeds for key, seeds in means.items() if seeds}, {k: _means(v, tasks) for k, v in random.items()}


def _means(values: _Values, tasks: Collection[str]) -> Seeds:
    return {seed: fmean(map(fmean, of.values())) for seed, of in values.items() if of.keys() == tasks}


def length_figure(rows: Iterable[Row]) -> Figure:
    """Accuracy before and after training, and the lead over LoGAH, against the steps of the hypernetwork."""
    points, random = means_of(rows)
    figure, panels = make_panels(3, legend=2.2)
    for axes, is_trained in zip(panels, (False, True), strict=False):
        axes.set_title("after training" if is_trained else "untrained")
        axes.axhline(fmean(random[is_trained].values()), color=_GRAY, label="random start")
        for method, layout in sorted({(key.method, key.layout) for key in points}):
            line = {key.steps: values for key, values in points.items() if key[:2] == (method, layout)
                    and key.is_trained == is_trained}  # fmt: skip
            label = f"{'TAL' if method == 'tal' else 'LoGAH'}, {layout}"
            _draw(axes, line, _COLORS[method], _DASHES[layout], label)
        axes.set_ylabel("test accuracy, %")
    panels[2].set_title("TAL − LoGAH")
    panels[2].axhline(PAPER_LEAD, color=_BLACK, dashes=(1, 2), label="paper's lead, untrained")
    panels[2].axhline(0, color=_GRAY, linewidth=0.8)
    for layout, dash in _DASHES.items():
        for is_trained in (False, True):
            leads = {
                key.steps: {seed: value - other[seed] for seed, value in values.items() if seed in other}
                for key, values in points.items()
                if (key.method, key.layout, key.is_trained) == ("tal", layout, is_trained)
                and (other := points.get(key._replace(method="logah")))
            }
            words = "after training" if is_trained else "untrained"
            _draw(panels[2], leads, _BLACK if is_trained else _PINK, dash, f"lead, {words}, {layout}")
    panels[2].set_ylabel("points")
    for axes in panels:
        axes.set_xscale("log", base=4)
        steps = sorted({key.steps for key in points})
        axes.set_xticks(steps, [f"{count:,}" for count in steps])
        axes.minorticks_off()
        axes.set_xlabel("steps of the hypernetwork")
    handles = {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside right center", frameon=False, fontsize=8)
    return figure


def _draw(axes: Axes, line: Mapping[int, Seeds], color: str, dash: str, label: str) -> None:
    """A line through the means, with 95 % intervals where there are seeds."""
    steps = sorted(count for count, seeds in line.items() if seeds)
    if not steps:
        return
    summaries = [summarize(list(line[count].values())) for count in steps]
    half = [summary.half_width or 0 for summary in summaries]
    axes.errorbar(steps, [s.mean for s in summaries], half, color=color, linestyle=dash, marker="o", label=label)


def leads_of(rows: Iterable[Row], is_trained: bool, other: str = "logah") -> dict[tuple[str, int], Summary]:
    """Lead of TAL over LoGAH or random starts, by layout and steps.

    Args:
        rows: Rows of the sweep.
        is_trained: Whether after training.
        other: ``logah`` or ``random``.
    """
    points, random = means_of(rows)
    found = {}
    for key, values in sorted(points.items()):
        if (key.method, key.is_trained) == ("tal", is_trained):
            against = random[is_trained] if other == "random" else points.get(key._replace(method="logah"), {})
            if (lead := paired_difference(values, against)) is not None:
                found[key.layout, key.steps] = lead.summary
    return found


def in_words(summary: Summary) -> str:
    """``+1.2 ± 0.4``, without an interval of one seed."""
    return f"{summary.mean:+.1f}" + ("" if summary.half_width is None else f" ± {summary.half_width:.1f}")


def length_table(rows: Iterable[Row]) -> str:
    """Accuracies and leads by layout and steps, in Markdown."""
    given = list(rows)
    points, random = means_of(given)
    leads = {
        (other, trained): leads_of(given, trained, other) for other in ("logah", "random") for trained in (False, True)
    }
    head = (
        "layout, steps",
        "seeds",
        "TAL untrained",
        "TAL − LoGAH",
        "TAL trained",
        "TAL − LoGAH, trained",
        "TAL − random, trained",
    )
    lines = [head, ("---", *["---:"] * (len(head) - 1))]
    for key in sorted(key for key in points if key.method == "tal" and not key.is_trained):
        place = key.layout, key.steps
        trained = points.get(key._replace(is_trained=True), {})
        cells = [leads[choice].get(place) for choice in (("logah", False), ("logah", True), ("random", True))]
        one, two, three = (EMPTY_CELL if cell is None else in_words(cell) for cell in cells)
        after = f"{fmean(trained.values()):.1f}" if trained else EMPTY_CELL
        before = f"{fmean(points[key].values()):.1f}"
        lines.append((f"{key.layout}, {key.steps:,}", str(len(points[key])), before, one, after, two, three))
    lines.append(("random start", str(len(random[True])), f"{fmean(random[False].values()):.1f}", EMPTY_CELL,
                  f"{fmean(random[True].values()):.1f}", EMPTY_CELL, EMPTY_CELL))  # fmt: skip
    return piped(lines)
