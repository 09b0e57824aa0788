"""Print a comparison in a terminal of any width."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from lgx.results.tables import Table

if TYPE_CHECKING:
    from lgx.results.comparison import Comparison
    from lgx.results.sections import Section

_FRAME = 3
"""Characters of a column's frame."""
_NARROWEST = 12
"""Characters to which the head of a column is folded at most."""


def print_comparison(comparison: "Comparison") -> None:
    """Print the introduction and all tables, each with its text."""
    print_sections([*comparison.headline, *comparison.introduction], comparison.sections)


def print_sections(introduction: Sequence[str], sections: "Sequence[Section]") -> None:
    """Print paragraphs, then sections without their figures.

    Args:
        introduction: The paragraphs.
        sections: The sections.
    """
    console = Console()
    for text in introduction:
        console.print(Text(folded(text, console.width)))
    for section in sections:
        console.print(Text(f"\n{section.title}", style="bold"))
        for table in section.tables:
            for view in to_rich(table, console.width):
                console.print(view)
        for text in (*section.text, *section.below):
            console.print(Text(folded(text, console.width)))


def to_rich(table: Table, width: int = 80) -> list[Text | RichTable]:
    """The title, the table and the sentence below it, for a terminal.

    Where the table is wider than the terminal, its heads are folded; where that is not enough, it is divided into
    parts, which all have the first column. Names are shown as they are, never read as markup.

    Args:
        table: The table.
        width: Width of the terminal, characters.
    """
    names = (table.first, *(name for name, _ in table.rows))
    first = min(max(cell_len(name) for name in names), width // 2)
    room = width - first - _FRAME - 1
    widths = _widths(table, room, folds=False)
    if sum(widths) + _FRAME * len(widths) > room:
        widths = _widths(table, room, folds=True)
        spare = width - sum(widths) - _FRAME * (len(widths) + 1) - 1
        if max(_longest_part(name) for name in names) <= spare < first:  # names of several lines keep it in one part
            first, room = spare, width - spare - _FRAME - 1
    blocks = _blocks(widths, room)
    found: list[Text | RichTable] = []
    for number, block in enumerate(blocks, 1):
        part = f" (part\u00a0{number}\u00a0of\u00a0{len(blocks)})" if len(blocks) > 1 else ""
        if table.title or part:
            found.append(Text(folded(f"{table.title}{part}".strip(), width), style="italic"))
        found.append(_view(table, first, {i: widths[i] for i in block}))
    if table.common:
        found.append(Text(folded(table.common, width), style="dim"))
    return found


def folded(text: str, width: int) -> str:
    """A text in lines of at most ``width`` characters, broken at spaces and behind the commas of specifications."""
    lines = [""]
    for part in re.split(r"(?<=[, ])", text):
        if lines[-1].strip() and cell_len((lines[-1] + part).rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def _widths(table: Table, room: int, folds: bool) -> list[int]:
    """Width of each column behind the first; with ``folds`` that of its folded head."""
    widths = []
    for i, head in enumerate(table.columns):
        cells = max((cell_len(cells[i].text) for _, cells in table.rows), default=0)
        shown = folded(head, max(cells, _NARROWEST)) if folds else head
        widths.append(min(max(cells, *(cell_len(line) for line in shown.split("\n"))), max(room - _FRAME, 1)))
    return widths


def _longest_part(text: str) -> int:
    """Width of the longest part of a text that :func:`folded` keeps in a line."""
    return max(cell_len(line.strip()) for line in folded(text, 1).split("\n"))


def _blocks(widths: Sequence[int], room: int) -> list[list[int]]:
    """Columns that fit side by side."""
    blocks: list[list[int]] = []
    left = 0
    for i, width in enumerate(widths):
        if not blocks or width + _FRAME > left:
            blocks.append([])
            left = room
        blocks[-1].append(i)
        left -= width + _FRAME
    return blocks


def _view(table: Table, first: int, widths: dict[int, int]) -> RichTable:
    view = RichTable()
    view.add_column(Text(folded(table.first, first)), width=first, overflow="fold")
    for i, width in widths.items():
        view.add_column(Text(folded(table.columns[i], width)), width=width, justify="right", overflow="fold")
    for name, cells in table.rows:
        shown = (Text(folded(cells[i].text, widths[i]), style="bold" if cells[i].best else "") for i in widths)
        view.add_row(Text(folded(name, first)), *shown)
    return view
