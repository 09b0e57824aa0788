"""The report of an arena: the result in sentences, tables, and curves of accuracy against total compute."""

from collections.abc import Sequence
from dataclasses import replace

from lgx.components.figures import log_ticks, make_panels, plain, to_svg
from lgx.core.rows import Row
from lgx.methods import registry
from lgx.results.arena.arena_file import Arena
from lgx.results.arena.sections import headlines, sections_of
from lgx.results.arena.verdicts import Curves
from lgx.results.figures import add_legend, legend_width
from lgx.results.looks import Style, styles
from lgx.results.merging import Place
from lgx.results.provenance import origin_section
from lgx.results.report import Item, Report, ReportFigure, Section

TITLE = "Starts at equal compute"
_LEAST_SEEDS = 3
"""With fewer seeds, intervals would be as wide as the axis, so single seeds are drawn."""


def report_of(arena: Arena, curves: Curves, rows: Sequence[Row], notes: Sequence[str] = ()) -> Report:
    """The report without figures, for the terminal.

    Args:
        arena: The arena.
        curves: Curves of the starts that were measured.
        rows: Rows of its runs.
        notes: Sentences on the metric.
    """
    words = ", ".join(sorted({row.hardware for row in rows if row.hardware}))
    overview = (
        f"{len({row.run for row in rows})} runs, seeds {', '.join(str(seed) for seed in arena.seeds)}, "
        f"tasks {', '.join(arena.tasks)}, sizes {', '.join(arena.sizes)}; {words}."
    )
    return Report(TITLE, headlines(arena, curves), [overview, *notes], sections_of(arena, curves))


def whole_report(arena: Arena, curves: Curves, rows: Sequence[Row], notes: Sequence[str] = ()) -> Report:
    """The report with curves, and facts of starts and rows; arguments as in :func:`report_of`."""
    report = report_of(arena, curves, rows, notes)
    looks = {start: replace(look, label=start) for start, look in styles(curves).items()}
    measured = dict.fromkeys(place for found in curves.values() for place in found)
    of_tasks = {task: [place for place in measured if place[0] == task] for task in arena.tasks}
    figures = [_curves_of(task, places, curves, looks) for task, places in of_tasks.items() if places]
    choice, verdicts, *others = report.sections
    starts = _start_section(arena, rows)
    sections = [choice, verdicts, Section("Curves", figures=figures), starts, *others, origin_section(rows)]
    return replace(report, sections=sections)


def _start_section(arena: Arena, rows: Sequence[Row]) -> Section:
    """Summary and paper of each start."""
    methods = {found.start: row.method for row in rows if (found := arena.measured_by(row.run)) is not None}
    items = []
    for start in filter(methods.__contains__, arena.starts):
        spec = registry.find_spec(methods[start])
        text = f"{spec.summary} {spec.paper}.".strip() if spec else "Method of a package that is not installed."
        items.append(Item(f"{start} ({methods[start]})", text, spec.url if spec else ""))
    return Section("Starts", items=items)


def _curves_of(task: str, places: Sequence[Place], curves: Curves, looks: dict[str, Style]) -> ReportFigure:
    """Accuracy against total compute, a panel for each size, bars are 95 % intervals."""
    figure, panels = make_panels(len(places), legend=legend_width(looks.values()))
    for axes, place in zip(panels, places, strict=True):
        for start, found in curves.items():
            trained = [point for point in found.get(place, ()) if point.flops.total]
            look = looks[start]
            flops = [point.flops.total / 1e12 for point in trained]
            bars = [(point.summary.half_width or 0.0) * (len(point.accuracy) >= _LEAST_SEEDS) for point in trained]
            axes.errorbar(
                flops, [point.summary.mean for point in trained], yerr=bars,
                color=look.color, linestyle=look.dash, marker=look.marker, markersize=4, capsize=2, linewidth=1.2,
            )  # fmt: skip
            for where, point in zip(flops, trained, strict=True):
                if 1 < len(point.accuracy) < _LEAST_SEEDS:
                    axes.plot([where] * len(point.accuracy), list(point.accuracy.values()), ".", color=look.color)
        log_ticks(axes)
        axes.set_title(plain(", ".join(place)))
        axes.set_xlabel("total compute per size (TFLOP)")
        axes.set_ylabel("accuracy (%)")
    add_legend(figure, list(looks.values()))
    counts = [len(point.accuracy) for found in curves.values() for curve in found.values() for point in curve]
    spread = "one seed each"
    if max(counts) > 1:
        few = max(counts) < _LEAST_SEEDS
        spread = f"means over seeds, {'dots are single seeds' if few else 'bars are 95 % intervals'}"
    caption = (
        f"{task}. At each amount of compute, compare which line is highest. Compute includes the share of sources; "
        f"{spread}."
    )
    label = f"accuracy against total compute on {task}, starts {', '.join(curves)}"
    name = f"curves-{task}"
    return ReportFigure(name, to_svg(figure, name), label, caption)
