"""A comparison in Markdown."""

import re
from collections.abc import Sequence

from lgx.results.sections import Item, Section
from lgx.results.tables import Table


def to_markdown_page(title: str, introduction: Sequence[str], sections: Sequence[Section]) -> str:
    """The whole comparison without its figures.

    Args:
        title: Title of the page.
        introduction: Paragraphs below it.
        sections: Its parts, in order.
    """
    parts = [f"# {escape_markdown(title)}", *map(escape_markdown, introduction)]
    for section in sections:
        if section.tables or section.text or section.items or section.below:
            parts += [f"## {escape_markdown(section.title)}", *map(escape_markdown, section.text)]
            parts += ["\n".join(map(_item, section.items))] if section.items else []
            parts += [to_markdown(table).strip() for table in section.tables]
            parts += map(escape_markdown, section.below)
    return "\n\n".join(parts) + "\n"


def to_markdown(table: Table) -> str:
    """The table in Markdown, below its title in bold."""
    safe = escape_markdown
    lines = [[safe(table.first), *map(safe, table.columns)], ["---", *["---:"] * len(table.columns)]]
    for method, cells in table.rows:
        lines.append([safe(method), *(f"**{safe(cell.text)}**" if cell.best else safe(cell.text) for cell in cells)])
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"**{safe(table.title)}**\n\n{body}\n\n{safe(table.common)}".strip() + "\n"


def _item(item: Item) -> str:
    return f"- **{escape_markdown(item.term)}**: {escape_markdown(item.text)} {item.url}".rstrip()


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\|*<>`\[\]])", r"\\\1", text.replace("\n", " "))
