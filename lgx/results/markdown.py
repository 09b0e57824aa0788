"""A report in Markdown, which its page and the terminal show, too."""

import re
from collections.abc import Iterable

from lgx.results.report import Drawing, Item, Report, Section, Table


def to_markdown_page(report: Report) -> str:
    """The whole report; its figures are files beside it."""
    parts = [f"# {escape_markdown(report.title)}", *map(escape_markdown, (*report.headline, *report.introduction))]
    return "\n\n".join([*parts, *map(section_in_markdown, report.sections)]) + "\n"


def section_in_markdown(section: Section) -> str:
    """A part of a report below its title."""
    parts = [f"## {escape_markdown(section.title)}", *map(escape_markdown, section.text)]
    parts += ["\n".join(map(_item, section.items))] if section.items else []
    parts += [to_markdown(table).strip() for table in section.tables]
    parts += map(_drawing, section.drawings)
    return "\n\n".join([*parts, *map(escape_markdown, section.below)])


def to_markdown(table: Table) -> str:
    """The table below its title in bold."""
    safe = escape_markdown
    lines = [[safe(table.first), *map(safe, table.columns)], ["---", *["---:"] * len(table.columns)]]
    for method, cells in table.rows:
        lines.append([safe(method), *(f"**{safe(cell.text)}**" if cell.best else safe(cell.text) for cell in cells)])
    body = piped(lines)
    title = f"**{safe(table.title)}**\n\n" if table.title else ""
    return f"{title}{body}\n\n{safe(table.common)}".strip() + "\n"


def piped(lines: Iterable[Iterable[str]]) -> str:
    """The lines of a table, the second of which says how columns are aligned; all text is Markdown already."""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\|*<>`\[\]]|&(?=#?\w+;))", r"\\\1", text.replace("\n", " "))


def _item(item: Item) -> str:
    link = f"<{item.url}>" if item.url.startswith(("https:", "http:")) else ""
    return f"- **{escape_markdown(item.term)}**: {escape_markdown(item.text)} {link}".rstrip()


def _drawing(drawing: Drawing) -> str:
    return f"![{escape_markdown(drawing.label)}]({drawing.name}.svg)\n\n{escape_markdown(drawing.caption)}"
