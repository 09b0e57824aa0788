"""Show Markdown in a terminal of any width."""

import re
from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, MarkdownElement, TableDataElement, TableElement
from rich.table import Table as RichTable
from rich.text import Text

from lgx.results.markdown import escape_markdown, section_in_markdown
from lgx.results.report import Report

_FRAME = 3
"""Characters of a column's frame."""
_NARROWEST = 12
"""Characters to which the head of a column is folded at most."""
_WIDEST = 26
"""Characters at which a column of texts is folded."""
_LONGEST = 32
"""Characters of a cell above which it is a text."""


def print_report(report: Report) -> None:
    """Print the result, and all sections without their figures."""
    print_markdown(*map(escape_markdown, (*report.headline, *report.introduction)))
    print_markdown(*map(section_in_markdown, report.sections))


def print_markdown(*parts: str) -> None:
    """Print parts in Markdown with an empty line between them."""
    console = Console()
    for part in parts:
        console.print(_Markdown(part), "")


class _Table(TableElement):
    """A table that keeps its numbers whole.

    If it is wider than the terminal, its heads are folded. If this is not enough, it is divided into parts that all
    have the first column. rich would break the numbers.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = self.header.row.cells if self.header and self.header.row else []
        lines = [row.cells for row in self.body.rows] if self.body else []
        first, *others = zip(head, *lines, strict=True)
        width = min(_widest(cell.content.plain for cell in first), options.max_width // 2)
        room = options.max_width - width - _FRAME - 1
        widths = [_width(column, room - _FRAME) for column in others]
        for part in _parts(widths, room):
            view = RichTable()
            columns = [(first, width), *((others[i], widths[i]) for i in part)]
            for (name, *_), own in columns:
                view.add_column(_folded(name, own), width=own, justify=name.justify, overflow="fold")
            for number in range(1, len(lines) + 1):
                view.add_row(*(_folded(column[number], own) for column, own in columns))
            yield view


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "table_open": _Table}


def _width(column: Sequence[TableDataElement], most: int) -> int:
    """Width of a column: numbers are kept whole, its head and texts are folded."""
    head, *cells = column
    least = _widest(cell.content.plain for cell in cells)
    if head.justify != "right" or least > _LONGEST:
        return min(max(least, cell_len(head.content.plain)), _WIDEST, max(most, 1))
    folded = _folded(head, max(least, _NARROWEST)).plain
    return min(max(least, _widest(folded.split("\n"))), max(most, 1))


def _parts(widths: Sequence[int], room: int) -> list[list[int]]:
    """Columns that fit side by side."""
    parts: list[list[int]] = []
    left = 0
    for i, width in enumerate(widths):
        if not parts or width + _FRAME > left:
            parts.append([])
            left = room
        parts[-1].append(i)
        left -= width + _FRAME
    return parts


def _folded(cell: TableDataElement, width: int) -> Text:
    """A text in lines of at most ``width`` characters, broken at spaces and behind the commas of specifications."""
    text, lines = cell.content, [""]
    if cell_len(text.plain) <= width:
        return text
    for part in re.split(r"(?<=[, ])", text.plain):
        if lines[-1].strip() and cell_len((lines[-1] + part).rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return Text("\n".join(line.rstrip() for line in lines))


def _widest(texts: Iterable[str]) -> int:
    return max(map(cell_len, texts), default=0)
