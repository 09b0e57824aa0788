"""A report in Markdown, and as one HTML page without scripts, other files or network access."""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from lgx.results.report import Item, Report, ReportFigure, Section, Table

GENERATOR = '<meta name="generator" content="lgx report">'
"""The mark of a page that lgx wrote."""

_LONG = 32
"""Largest number of characters of an unfolded cell."""

_STYLE = Path(__file__).with_name("report.css").read_text().strip()


def to_markdown_page(report: Report) -> str:
    """The whole report; its figures are files beside it."""
    parts = [f"# {escape_markdown(report.title)}", *map(escape_markdown, (*report.headline, *report.introduction))]
    return "\n\n".join([*parts, *map(section_in_markdown, report.sections)]) + "\n"


def section_in_markdown(section: Section) -> str:
    """A part of a report below its title."""
    parts = [f"## {escape_markdown(section.title)}", *map(escape_markdown, section.text)]
    parts += ["\n".join(map(_item, section.items))] if section.items else []
    parts += [to_markdown(table).strip() for table in section.tables]
    parts += map(_figure, section.figures)
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
    """The lines of a table of Markdown texts; the second line aligns columns."""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escape_markdown(text: str) -> str:
    """Escape a text for Markdown."""
    return re.sub(r"([\\|*<>`\[\]]|&(?=#?\w+;))", r"\\\1", text.replace("\n", " "))


def to_html(report: Report) -> str:
    """The page. All text is escaped; the same report gives the same page."""
    markdown = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer).enable("table")
    markdown.core.ruler.push("heads", lambda state: _mark_heads(state.tokens))
    headline, introduction = (
        markdown.render("\n\n".join(map(escape_markdown, texts))) for texts in (report.headline, report.introduction)
    )
    titles = [escape(section.title) for section in report.sections]
    entries = "".join(f'<li><a href="#s{n}">{title}</a></li>' for n, title in enumerate(titles, 1))
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            GENERATOR,
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(report.title)}</title>",
            f"<style>\n{_STYLE}\n</style></head>",
            f"<body><main><h1>{escape(report.title)}</h1>",
            f'<div class="headline">{headline}</div>{introduction}' if headline else introduction,
            f'<nav aria-label="Contents"><ul>{entries}</ul></nav>',
            *(_section(markdown, section, f"s{n}") for n, section in enumerate(report.sections, 1)),
            "</main></body></html>\n",
        ]
    )


def _item(item: Item) -> str:
    link = f"<{item.url}>" if item.url.startswith(("https:", "http:")) else ""
    return f"- **{escape_markdown(item.term)}**: {escape_markdown(item.text)} {link}".rstrip()


def _figure(figure: ReportFigure) -> str:
    return f"![{escape_markdown(figure.label)}]({figure.name}.svg)\n\n{escape_markdown(figure.caption)}"


def _section(markdown: MarkdownIt, section: Section, name: str) -> str:
    figures = {f"{figure.name}.svg": figure for figure in section.figures}
    body = markdown.render(section_in_markdown(section), {"figures": figures, "title": section.title})
    return f'<section aria-labelledby="{name}">{body.replace("<h2>", f"<h2 id={name!r}>", 1)}</section>'


def _mark_heads(tokens: Sequence[Token]) -> None:
    """Make the first cell of a line its head, and set the scope of heads."""
    heads: list[str] = []
    column = 0
    for i, token in enumerate(tokens):
        if token.type == "thead_open":
            heads = []
        elif token.type == "tr_open":
            column = 0
        elif token.type in ("th_open", "td_open"):
            column += 1
        if token.type == "th_open":
            token.attrSet("scope", "col")
            heads.append(tokens[i + 1].content)
        elif token.type == "td_open" and tokens[i - 1].type == "tr_open":
            token.attrSet("scope", "row")
            token.tag = tokens[i + 2].tag = "th"
        elif token.type == "td_open":
            token.attrSet("data-head", heads[column - 1])
            if len(tokens[i + 1].content) > _LONG:
                token.attrSet("class", "words")


class _Renderer(RendererHTML):
    """HTML with scrolling wide tables and embedded figures."""

    def table_open(self, tokens: Sequence[Token], i: int, options: Any, env: Mapping[str, Any]) -> str:
        """A table in a box that can be scrolled, also with the keyboard."""
        return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(env["title"])}"><table>\n'

    def table_close(self, tokens: Sequence[Token], i: int, options: Any, env: Mapping[str, Any]) -> str:
        """The end of the box."""
        return "</table></div>\n"

    def image(self, tokens: Sequence[Token], i: int, options: Any, env: Mapping[str, Any]) -> str:
        """The figure in a box that can be scrolled, in the ink of the page, instead of its file."""
        figure: ReportFigure = env["figures"][tokens[i].attrs["src"]]
        box = f'class="scroll figure" tabindex="0" role="img" aria-label="{escape(figure.label)}"'
        in_ink = re.sub(r"#000000\b", "currentColor", figure.svg)  # black would be lost on a dark page
        return f"<span {box}>{in_ink}</span>"
