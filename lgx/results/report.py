"""What a comparison says, and ``report.html``: one page that needs no other file, no script and no network."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from lgx.core.rows import Row
from lgx.results.claims import Verdict
from lgx.results.cost import MethodCost, epochs_table, macs_table, storage_table
from lgx.results.curves import Curve
from lgx.results.figures import Style, curve_figure, depth_figure, to_svg
from lgx.results.paper import PaperTable
from lgx.results.statistics import caveat
from lgx.results.tables import (
    NONE,
    PERCENT,
    Cell,
    Entry,
    Table,
    architecture_order,
    arrange,
    depth_of,
    differences,
    family_of,
    measured,
    method_order,
    printed,
)

Seeds = dict[int, dict[str, Curve]]
"""Curves by seed, then by tag."""

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.4rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .25rem .8rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child { text-align: left; }
thead th { border-bottom: 2px solid var(--line); }
td.best { font-weight: 700; background: var(--soft); }
.scroll { overflow-x: auto; }
.beside { display: flex; flex-wrap: wrap; gap: 0 3rem; }
figure { margin: 1.2rem 0; }
figure > div { background: #fff; border-radius: .4rem; padding: .6rem; overflow-x: auto; }
figure svg { max-width: 100%; height: auto; }
figure svg text { font-family: system-ui, sans-serif !important; }
figcaption, .small { font-size: .9rem; opacity: .8; }
""".strip()


@dataclass(frozen=True)
class Drawing:
    """A figure in the report.

    Attributes:
        svg: The ``<svg>`` element, trusted.
        label: What it shows, for those who cannot see it.
        caption: What stands below it.
    """

    svg: str
    label: str
    caption: str


@dataclass(frozen=True)
class Section:
    """A part of the report.

    Attributes:
        title: Its head.
        text: Paragraphs before tables and figures.
        tables: Tables, side by side where the page is wide enough.
        drawings: Figures.
    """

    title: str
    text: Sequence[str] = ()
    tables: Sequence[Table] = ()
    drawings: Sequence[Drawing] = ()


def table_section(rows: Sequence[Row], metric: str, split: str, paper: PaperTable | None = None) -> Section:
    """Methods × descendants × tasks, with the paper's numbers where a table of a paper is given.

    Args:
        rows: Rows of one metric and one split, not empty.
        metric: That metric.
        split: That split.
        paper: Table to compare with. Its number stands behind the measured one where method, architecture, task and
            epochs are the same; the whole table stands beside, its lines in the same order of methods.
    """
    entries = measured(rows, metric, paper)
    title = f"{metric}{' (%)' if metric in PERCENT else ''} on the {split} split"
    text = ["Bold is the best mean of a column, whether or not chance explains it."]
    text.append(caveat([entry.summary.n for entry in entries if entry.summary]))
    if paper is None:
        return Section(title, text, arrange(entries, metric))
    numbers = printed(paper, metric)
    matched = sum(entry.paper is not None for entry in entries)
    if matched:
        text.append(f"The paper has a number for {matched} of {len(entries)} cells, behind the measured one.")
    else:
        text.append(
            "The paper has no number for these architectures, tasks and epochs: the scales differ. Compare the order "
            "of the methods within each table, not the numbers."
        )
    text.append(f"{paper.source}: {paper.title}.")
    text += [f"Note: {note}" for note in paper.notes]
    methods = [*(entry.method for entry in entries), *(number.method for number in numbers)]
    beside = [
        Table(f"paper {paper.name}: {table.title}", table.columns, table.rows, table.common)
        for table in arrange(numbers, metric, methods)
    ]
    own = arrange(entries, metric, () if matched else methods)
    return Section(f"{title}, beside {paper.name}", text, [*own, *beside])


def claim_section(verdicts: Sequence[Verdict]) -> Section:
    """What a paper says of its methods, and what the rows say.

    Args:
        verdicts: One for each claim, not empty.
    """
    lines = []
    for verdict in verdicts:
        measured = verdict.measured
        width = measured.summary.half_width if measured else None
        ahead = f"{measured.summary.mean:+.2f}" if measured else NONE
        lines.append(
            (
                str(verdict.claim),
                (
                    Cell(NONE if verdict.paper is None else f"{verdict.paper:+.2f}"),
                    Cell(ahead if width is None else f"{ahead} ± {width:.2f}"),
                    Cell(str(measured.summary.n if measured else 0)),
                    Cell(str(verdict.cells)),
                    Cell(verdict.answer, best=verdict.answer == "holds"),
                ),
            )
        )
    text = (
        "By how much the first method is ahead of the second, in the mean over all tasks, architectures and epochs "
        "that both have: in the paper's table, and here, paired by seed, with half of a 95 % interval. A claim holds, "
        "or does not, where the interval excludes 0; else it is open, with one seed always."
    )
    columns = ("paper", "measured", "seeds", "cells", "verdict")
    return Section("The paper's claims", [text], [Table("", columns, tuple(lines), first="claim")])


def difference_section(rows: Sequence[Row], metric: str, baseline: str) -> Section:
    """Paired differences of all methods to one.

    Args:
        rows: Rows of one metric and one split.
        metric: That metric.
        baseline: Method to compare with.
    """
    entries = differences(rows, metric, baseline)
    title = f"Difference to {baseline}"
    if not entries:
        return Section(title, [f"No method was measured with a seed, task, architecture and epochs of {baseline}."])
    text = (
        "Paired over the seeds (their number in parentheses) that both have; * where the 95 % interval excludes 0. "
        "p is of the two-sided paired t-test; it needs two seeds and is not corrected for the number of comparisons."
    )
    return Section(title, [text], arrange(entries, metric, mark_best=False))


def cost_section(costs: Sequence[MethodCost]) -> Section:
    """What the descendants cost with each method.

    Args:
        costs: At least one method's.
    """
    text = [
        "Stored is what has to be kept to start all architectures, beside a pretrained network of each one's own.",
        "Tuning is the training of all descendants, one per architecture and task. The last columns say how many times "
        "the method's own training, learngene and tuning together, others need: training the same descendants from "
        "scratch, as measured (method random), and pretraining every architecture as long as the learngene was "
        "learned, followed by the same tuning. Ancestors, which the papers take as given, are in no ratio.",
        "In epochs, as the papers count, every epoch is worth the same. In MACs, an image costs three times the "
        "network's forward pass, backward pass included, and the teacher's forward pass where one is distilled. A dash "
        "was not measured or is not known, such as the MACs of a hypernetwork, whose networks change with every step.",
    ]
    return Section("Cost", text, [storage_table(costs), epochs_table(costs), macs_table(costs)])


def depth_section(rows: Sequence[Row], metric: str, looks: Mapping[str, Style]) -> Section | None:
    """The metric against depth, a figure per task and family of architectures; None where no family has two depths.

    Args:
        rows: Rows of one metric and one split.
        metric: That metric.
        looks: Style of every method.
    """
    groups: dict[tuple[str, str], list[Entry]] = {}
    entries = [entry for entry in measured(rows, metric) if depth_of(entry.architecture) is not None]
    for entry in sorted(entries, key=lambda e: (e.task, architecture_order(e.architecture))):
        groups.setdefault((entry.task, family_of(entry.architecture)), []).append(entry)
    drawings: list[Drawing] = []
    for (task, family), everything in groups.items():
        # Single networks, such as the ancestor, are no curve; epochs at which there are only such get no panel.
        measurements = Counter((entry.epochs, entry.method) for entry in everything)
        curved = {epochs for (epochs, _), count in measurements.items() if count > 1}
        group = [entry for entry in everything if entry.epochs in curved]
        if group:
            methods = ", ".join(sorted({entry.method for entry in group}, key=method_order))
            svg = to_svg(depth_figure(group, metric, looks), f"depth{len(drawings)}")
            label = f"{metric} against depth, task {task}, architectures {family}, methods {methods}"
            drawings.append(Drawing(svg, label, f"{task}, {family}: mean over seeds, bars are 95 % intervals."))
    return Section(f"{metric} against depth", drawings=drawings) if drawings else None


def curve_section(runs: Mapping[tuple[str, str], Mapping[str, Seeds]], looks: Mapping[str, Style]) -> Section | None:
    """Training curves, a figure per task and architecture; None where there are none.

    Args:
        runs: Curves by (task, architecture), then by method.
        looks: Style of every method.
    """
    drawings: list[Drawing] = []
    for task, architecture in sorted(runs, key=lambda key: (key[0], architecture_order(key[1]))):
        methods = runs[task, architecture]
        figure = curve_figure({method: list(seeds.values()) for method, seeds in methods.items()}, looks)
        names = ", ".join(sorted(methods, key=method_order))
        drawings.append(
            Drawing(
                to_svg(figure, f"curve{len(drawings)}"),
                f"training curves, task {task}, architecture {architecture}, methods {names}",
                f"{task}, {architecture}: mean over seeds, the band is their range.",
            )
        )
    return Section("Training curves", drawings=drawings) if drawings else None


def to_html(title: str, introduction: Sequence[str], sections: Sequence[Section]) -> str:
    """The page. All text is escaped; the same content gives the same page.

    Args:
        title: Title of the page.
        introduction: Paragraphs below it.
        sections: Its parts, in order.
    """
    body = [f"<h1>{escape(title)}</h1>", *(_paragraph(text) for text in introduction)]
    for section in sections:
        body += [f"<h2>{escape(section.title)}</h2>", *(_paragraph(text) for text in section.text)]
        if section.tables:
            body += ['<div class="beside">', *(_html_table(table) for table in section.tables), "</div>"]
        body += [_html_figure(drawing) for drawing in section.drawings]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{_STYLE}\n</style></head>",
            "<body><main>",
            *body,
            "</main></body></html>\n",
        ]
    )


def to_markdown_page(title: str, introduction: Sequence[str], sections: Sequence[Section]) -> str:
    """The same content in Markdown, without the figures."""
    parts = [f"# {escape_markdown(title)}", *map(escape_markdown, introduction)]
    for section in sections:
        if section.tables or section.text:
            parts += [f"## {escape_markdown(section.title)}", *map(escape_markdown, section.text)]
            parts += [to_markdown(table).strip() for table in section.tables]
    return "\n\n".join(parts) + "\n"


def to_markdown(table: Table) -> str:
    """The table in Markdown, under its title in bold."""
    safe = escape_markdown
    lines = [[safe(table.first), *map(safe, table.columns)], ["---", *["---:"] * len(table.columns)]]
    for method, cells in table.rows:
        lines.append([safe(method), *(f"**{safe(cell.text)}**" if cell.best else safe(cell.text) for cell in cells)])
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"**{safe(table.title)}**\n\n{body}\n\n{safe(table.common)}".strip() + "\n"


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\|*<>`\[\]])", r"\\\1", text.replace("\n", " "))


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _html_table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in (table.first, *table.columns))
    lines = []
    for method, cells in table.rows:
        shown = "".join(f"<td{' class=best' if cell.best else ''}>{escape(cell.text)}</td>" for cell in cells)
        lines.append(f'<tr><th scope="row">{escape(method)}</th>{shown}</tr>')
    below = f'<p class="small">{escape(table.common)}</p>' if table.common else ""
    return "\n".join(
        [
            f'<div class="scroll"><table><caption>{escape(table.title)}</caption>',
            f"<thead><tr>{head}</tr></thead>",
            "<tbody>",
            *lines,
            f"</tbody></table>{below}</div>",
        ]
    )


def _html_figure(drawing: Drawing) -> str:
    return (
        f'<figure><div role="img" aria-label="{escape(drawing.label)}">\n{drawing.svg}\n</div>'
        f"<figcaption>{escape(drawing.caption)}</figcaption></figure>"
    )
