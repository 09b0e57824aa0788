"""Print a comparison in a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from lgx.results.comparison import Comparison
from lgx.results.sections import Section
from lgx.results.tables import Table

_FRAME = 3
"""Characters of a column's frame."""


def print_comparison(comparison: Comparison) -> None:
    """Print the introduction and all tables, each with its text."""
    print_sections([*comparison.headline, *comparison.introduction], comparison.sections)


def print_sections(introduction: Sequence[str], sections: Sequence[Section]) -> None:
    """Print paragraphs, then sections without their figures.

    Args:
        introduction: The paragraphs.
        sections: The sections.
    """
    console = Console()
    for text in introduction:
        console.print(Text(text))
    for section in sections:
        console.print(Text(f"\n{section.title}", style="bold"))
        for table in section.tables:
            for view in to_rich(table, console.width):
                console.print(view)
        for text in (*section.text, *section.below):
            console.print(Text(text))


def to_rich(table: Table, width: int = 80) -> list[RichTable]:
    """The table for a terminal, split into several where it is wider than that.

    Names are shown as they are, never read as markup.

    Args:
        table: The table.
        width: Width of the terminal, characters.
    """
    return [_view(table, block) for block in _blocks(table, width)]


def _blocks(table: Table, width: int) -> list[list[int]]:
    """Columns that fit side by side."""
    first = max(len(text) for text in (table.first, *(method for method, _ in table.rows)))
    blocks: list[list[int]] = []
    room = 0
    for i, column in enumerate(table.columns):
        wanted = _FRAME + max(len(text) for text in (column, *(cells[i].text for _, cells in table.rows)))
        if wanted > room:
            blocks.append([])
            room = width - first - _FRAME - 1
        blocks[-1].append(i)
        room -= wanted
    return blocks


def _view(table: Table, columns: Sequence[int]) -> RichTable:
    title, caption = Text(table.title), Text(table.common)
    view = RichTable(title=title, title_justify="left", caption=caption, caption_justify="left")
    view.add_column(table.first, no_wrap=True)
    for i in columns:
        view.add_column(Text(table.columns[i]), justify="right", overflow="fold")
    for method, cells in table.rows:
        shown = (Text(cells[i].text, style="bold" if cells[i].best else "") for i in columns)
        view.add_row(Text(method), *shown)
    return view
