"""A report: sections of text, tables and figures, shown as one page, in Markdown or in a terminal."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import jinja2
from markupsafe import Markup

from lgx.core.readable import escape_markdown

if TYPE_CHECKING:
    from rich.table import Table as RichTable

EMPTY_CELL = "–"
"""Text of an empty cell."""
_UNBOUNDED = 10_000
_WIDEST = 26
"""Characters to which a terminal's column is folded."""


class Cell(NamedTuple):
    """Text of a cell, and whether it is the best of its column."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        title: Its title.
        columns: Heads of the columns after the first.
        rows: For each line the text of the first column, usually a method, and the cells.
        common: Sentence below the table; may be empty.
        first: Head of the first column.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    common: str = ""
    first: str = "method"


@dataclass(frozen=True)
class ReportFigure:
    """A figure.

    Attributes:
        name: Begins the identifiers in it.
        svg: The ``<svg>`` element with legend, trusted.
        label: Description for readers who cannot see it.
        caption: Text below the figure, with hints for reading it.
    """

    name: str
    svg: str
    label: str
    caption: str

    @property
    def in_ink(self) -> Markup:
        """The figure with black lines in the color of the page's text, which differs on a dark page."""
        return Markup(re.sub(r"#000000\b", "currentColor", self.svg))


@dataclass(frozen=True)
class Section:
    """A part of a report.

    Attributes:
        title: Its title.
        text: Paragraphs before everything else.
        tables: Tables.
        figures: Figures.
    """

    title: str
    text: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[ReportFigure] = ()


@dataclass(frozen=True)
class Report:
    """What a comparison or a run tells its readers.

    Attributes:
        title: Its title.
        introduction: Paragraphs on included and excluded rows.
        sections: Its parts, in order.
    """

    title: str
    introduction: Sequence[str]
    sections: Sequence[Section]


@cache
def _templates() -> jinja2.Environment:
    loader = jinja2.PackageLoader("lgx.results", "templates")
    return jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)


def generator(command: str) -> str:
    """The mark of a page that a command wrote."""
    return f'<meta name="generator" content="{command}">'


def to_html(report: Report, command: str) -> str:
    """One page without scripts, other files or network access. All text is escaped."""
    return _templates().get_template("report.html").render(report=report, generator=Markup(generator(command)))


def to_markdown_page(report: Report) -> str:
    """The report in Markdown, without figures."""
    parts = [f"# {escape_markdown(report.title)}", *map(escape_markdown, report.introduction)]
    for section in report.sections:
        parts += [f"## {escape_markdown(section.title)}", *map(escape_markdown, section.text)]
        parts += [to_markdown(table).strip() for table in section.tables]
    return "\n\n".join(parts) + "\n"


def to_markdown(table: Table) -> str:
    """The table below its title in bold."""
    safe = escape_markdown
    lines = [[safe(table.first), *map(safe, table.columns)], ["---", *["---:"] * len(table.columns)]]
    for method, cells in table.rows:
        lines.append([safe(method), *(f"**{safe(cell.text)}**" if cell.best else safe(cell.text) for cell in cells)])
    title = f"**{safe(table.title)}**\n\n" if table.title else ""
    return f"{title}{piped(lines)}\n\n{safe(table.common)}".strip() + "\n"


def piped(lines: Iterable[Iterable[str]]) -> str:
    """The lines of a table of Markdown texts; the second line aligns columns."""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def print_report(report: Report) -> None:
    """Print the sentences and tables. Tables keep their numbers whole, also beyond the terminal's width."""
    from rich.console import Console

    screen = Console()
    tables = Console(width=_UNBOUNDED)
    for sentence in report.introduction:
        screen.print(sentence, "", sep="\n", markup=False, highlight=False)
    for section in report.sections:
        screen.print(section.title, style="bold", markup=False, highlight=False)
        for sentence in section.text:
            screen.print(sentence, markup=False, highlight=False)
        for table in section.tables:
            screen.print(table.title, style="bold", markup=False, highlight=False)
            tables.print(_in_terminal(table), "", sep="\n")


def _in_terminal(table: Table) -> "RichTable":
    from rich.table import Table as RichTable
    from rich.text import Text

    view = RichTable()
    view.add_column(Text(table.first), no_wrap=True)
    for head in table.columns:
        view.add_column(Text(head), max_width=_WIDEST, justify="right", overflow="fold")
    for name, cells in table.rows:
        view.add_row(Text(name), *(Text(cell.text, style="bold" if cell.best else "") for cell in cells))
    return view
