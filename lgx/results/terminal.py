"""Show Markdown in a terminal."""

from typing import ClassVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, MarkdownElement, TableElement
from rich.table import Table as RichTable

from lgx.results.markdown import escape_markdown, section_in_markdown
from lgx.results.report import Report

_NARROWEST = 12
"""Characters to which the head of a column is folded at most."""
_WIDEST, _LONGEST = 26, 32
"""Characters at which a column is folded that has cells of more than so many characters: a text, no number."""
_UNBOUNDED = 10_000


def print_report(report: Report) -> None:
    """Print the result, and all sections without their figures."""
    print_markdown(*map(escape_markdown, (*report.headline, *report.introduction)))
    print_markdown(*map(section_in_markdown, report.sections))


def print_markdown(*parts: str) -> None:
    """Print parts in Markdown with an empty line between them."""
    console = Console()
    for part in parts:
        console.print(_Markdown(part), "", crop=False)


class _Table(TableElement):
    """A table with whole numbers, also where it is wider than the terminal, which then wraps its lines.

    rich would break the numbers.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = self.header.row.cells if self.header and self.header.row else []
        lines = [[cell.content for cell in row.cells] for row in self.body.rows] if self.body else []
        view = RichTable()
        for name, *cells in zip(head, *lines, strict=True):
            longest = max((cell_len(cell.plain) for cell in cells), default=0)
            width = max(longest, min(cell_len(name.content.plain), _NARROWEST))
            width = _WIDEST if longest > _LONGEST and view.columns else width  # the first column has names
            view.add_column(name.content, width=width, justify=name.justify, overflow="fold")
        for line in lines:
            view.add_row(*line)
        yield from console.render(view, options.update(max_width=_UNBOUNDED))


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "table_open": _Table}
