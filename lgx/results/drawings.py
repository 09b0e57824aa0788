"""The figures of a report, as sections."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence

from lgx.components.figures import glyph, to_panels, to_svg
from lgx.core.rows import Row
from lgx.results.architecture_names import architecture_order, depth_of, family_of
from lgx.results.curves import Curve, Place, Seeds
from lgx.results.figures import MOST_PANELS, average_figure, curve_figure, depth_figure, tag_words
from lgx.results.looks import Style, method_order
from lgx.results.metrics import in_words, lower_is_better, scale_of, with_unit
from lgx.results.sections import Drawing, Section
from lgx.results.standings import Standing
from lgx.results.statistics import summarize
from lgx.results.tables import NONE, Cell, Entry, Table, measured, state, summary_text

_Curves = Mapping[str, Sequence[Mapping[str, Curve]]]
"""Curves of each method's seeds, by tag."""


def average_drawing(
    found: Sequence[Standing], looks: Mapping[str, Style], levels: Mapping[str, float]
) -> Drawing | None:
    """The averages as dots; None where nothing is compared.

    Args:
        found: Standings, ascending.
        looks: Style of every method.
        levels: Chance levels by task.
    """
    compared = [standing for standing in found if len(standing.values) > 1]
    shown = compared if len(compared) <= MOST_PANELS else [compared[0], *compared[1 - MOST_PANELS :]]
    if not shown:
        return None
    chances = [standing.chance(levels) for standing in shown]
    figure = average_figure(shown, looks, chances)
    seeds = [standing.summary(method).n for standing in shown for method in standing.values]
    ranks = "; ".join(f"{state(s.epochs)}: {', '.join(looks[m].label for m in s.ranking)}" for s in shown)
    metric = shown[0].metric
    better = "left" if lower_is_better(metric) else "right"
    caption = f"Look at which method stands farthest to the {better}{_apart(seeds)}.{_spread(seeds)}"
    caption += _chance(chances, metric)
    label = f"averages of {in_words(metric)}, the best first; {ranks}"
    return Drawing(to_svg(figure, "averages"), label, caption, to_panels(figure, "averages"))


def depth_section(
    rows: Sequence[Row], metric: str, looks: Mapping[str, Style], levels: Mapping[str, float] | None = None
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
    drawings: list[Drawing] = []
    drawn: set[str] = set()
    for (task, family), everything in groups.items():
        # Single networks, such as the ancestor, are no curve; epochs with single networks alone get no panel.
        measurements = Counter((entry.epochs, entry.method) for entry in everything)
        curved = {epochs for (epochs, _), count in measurements.items() if count > 1}
        group = [entry for entry in everything if entry.epochs in curved]
        if group:
            methods = sorted({entry.method for entry in group}, key=method_order)
            drawn.update(methods)
            chance = (levels or {}).get(task)
            figure = depth_figure(group, metric, looks, chance)
            name = f"depth{len(drawings)}"
            label = f"{metric} against depth, task {task}, architectures {family}, methods {', '.join(methods)}"
            seeds = [entry.summary.n for entry in group if entry.summary]
            best = "lowest" if lower_is_better(metric) else "highest"
            caption = (
                f"{task}, {family}. Look at which line is {best}{_apart(seeds)}, and whether that holds at every "
                f"depth.{_spread(seeds)}"
            )
            caption += "" if chance is None else f" Chance is {with_unit(chance, metric)}."
            drawings.append(Drawing(to_svg(figure, name), label, caption, to_panels(figure, name)))
    if not drawings:
        return None
    return Section(
        f"{in_words(metric).capitalize()} against depth", drawings=drawings, legend=legend(drawn, looks, "depth")
    )


def curve_section(curves: Mapping[Place, Mapping[str, Seeds]], looks: Mapping[str, Style]) -> Section | None:
    """Training curves, a figure for each task and architecture; None without curves.

    Scalars that no run has recorded twice are tables, not figures.

    Args:
        curves: Curves by task and architecture, then by method.
        looks: Style of every method.
    """
    drawings: list[Drawing] = []
    tables: list[Table] = []
    drawn: set[str] = set()
    for task, architecture in sorted(curves, key=lambda place: (place[0], architecture_order(place[1]))):
        whole = {method: list(seeds.values()) for method, seeds in curves[task, architecture].items()}
        every = [(tag, curve) for seeds in whole.values() for seed in seeds for tag, curve in seed.items()]
        recorded, drawable = {tag for tag, _ in every}, {tag for tag, curve in every if len(curve.steps) > 1}
        if single := _only(whole, recorded - drawable):
            tables.append(_single_table(f"{task}, {architecture}", single))
        if not (shown := _only(whole, drawable)):
            continue
        drawn.update(shown)
        figure, name = curve_figure(shown, looks), f"curve{len(drawings)}"
        names = ", ".join(sorted(shown, key=method_order))
        label = f"training curves, task {task}, architecture {architecture}, methods {names}"
        counts = [len(seeds) for seeds in shown.values()]
        over = "One seed each." if max(counts) == 1 else "Lines are means over seeds, bands their range."
        caption = f"{task}, {architecture}. Look at which line is ahead early, and which at the end. {over}"
        drawings.append(Drawing(to_svg(figure, name), label, caption, to_panels(figure, name)))
    if not drawings and not tables:
        return None
    text = ["The tables show what was recorded at a single step, which is no curve."] if tables else []
    return Section("Training curves", text, tables, drawings, legend=legend(drawn, looks, "curves"))


def legend(methods: Iterable[str], looks: Mapping[str, Style], prefix: str) -> list[tuple[str, str]]:
    """Glyph and words of each method's line.

    Args:
        methods: Names in results.
        looks: Style of every method.
        prefix: Set before the ids of the glyphs.
    """
    chosen = [looks[method] for method in sorted(methods, key=method_order)]
    return [(glyph(s.color, s.dash, s.marker, f"{prefix}g{i}"), s.label) for i, s in enumerate(chosen)]


def _only(curves: _Curves, tags: Container[str]) -> dict[str, Sequence[Mapping[str, Curve]]]:
    """The curves of some tags; methods and seeds without such are left out."""
    kept = {
        method: [own for seed in seeds if (own := {tag: curve for tag, curve in seed.items() if tag in tags})]
        for method, seeds in curves.items()
    }
    return {method: seeds for method, seeds in kept.items() if seeds}


def _single_table(title: str, curves: _Curves) -> Table:
    """What was recorded once, mean over seeds."""
    tags = sorted({tag for seeds in curves.values() for seed in seeds for tag in seed})
    lines = []
    for method in sorted(curves, key=method_order):
        cells = []
        for tag in tags:
            metric = tag.partition("/")[2]
            values = [scale_of(metric) * seed[tag].values[0] for seed in curves[method] if tag in seed]
            cells.append(Cell(summary_text(summarize(values), metric) if values else NONE))
        lines.append((method, tuple(cells)))
    return Table(title, tuple(map(tag_words, tags)), tuple(lines))


def _apart(seeds: Sequence[int]) -> str:
    """What else to look at, where there are intervals."""
    return " and whether its bar overlaps the others" if max(seeds, default=1) > 1 else ""


def _spread(seeds: Sequence[int]) -> str:
    """What the bars are."""
    if max(seeds, default=1) == 1:
        return " One seed each, so that there are no bars and nothing can be claimed."
    least, most = min(seeds), max(seeds)
    count = f"{most}" if least == most else f"{least} to {most}"
    return f" Means over {count} seeds; bars are 95 % intervals{', single seeds have none' if least == 1 else ''}."


def _chance(chances: Sequence[float | None], metric: str) -> str:
    """The chance level in words."""
    known = {with_unit(chance, metric) for chance in chances if chance is not None}
    level = f"Chance, {known.pop()}, is" if len(known) == 1 else "Chance is"
    return f" {level} a dashed line where it is near the dots." if any(c is not None for c in chances) else ""
