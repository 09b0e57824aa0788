"""``report.html``: one page that needs no other file, no script and no network."""

import re
from collections.abc import Sequence
from html import escape

from lgx.components.figures import in_ink
from lgx.results.sections import Drawing, Item, Section
from lgx.results.tables import Table

GENERATOR = '<meta name="generator" content="lgx compare">'
"""The mark by which a page says that lgx wrote it."""

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8882; --accent: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --accent: #6cc0f0; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; background: Canvas; color: CanvasText; }
main { max-width: 76rem; margin: 0 auto; padding: 1.5rem 1.2rem 3rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 1rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .6rem; }
p, li, dd { max-width: 48rem; }
a { color: var(--accent); }
.headline { border-left: .3rem solid var(--accent); padding-left: .9rem; font-size: 1.1rem; }
.headline p { margin: .5rem 0; }
.headline p:first-child { font-size: 1.25rem; line-height: 1.4; font-weight: 600; margin-top: 0; }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; padding: 0; list-style: none; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .25rem .8rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
thead th { border-bottom: 2px solid var(--line); vertical-align: bottom; }
th:first-child { text-align: left; position: sticky; left: 0; background: Canvas; padding-left: 0; }
td.best { font-weight: 700; background: var(--soft); }
.scroll { overflow-x: auto; max-width: 100%; min-width: 0; margin: 1rem 0; }
.scroll:focus-visible { outline: 2px solid var(--accent); }
.beside { display: flex; flex-wrap: wrap; gap: 0 3rem; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; }
figure { margin: .6rem 0; max-width: 100%; min-width: 0; }
.panels { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; align-items: flex-start; }
figure svg { max-width: 100%; height: auto; }
svg text { font-family: system-ui, sans-serif !important; fill: currentColor; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.4rem; list-style: none; padding: 0; font-size: .9rem; }
.legend svg { vertical-align: middle; margin-right: .4rem; }
dt { font-weight: 600; margin-top: .8rem; }
dd { margin: 0; }
figcaption, .small { font-size: .9rem; opacity: .85; max-width: 48rem; }
@media (max-width: 40rem) {
  main { padding: 1rem .9rem 2rem; }
  th, td { padding: .25rem .5rem; }
  thead th { white-space: normal; overflow-wrap: normal; }
  th:first-child { white-space: normal; overflow-wrap: break-word; max-width: 9rem; }
}
@media print { .scroll { overflow: visible; } th, td, thead th { white-space: normal; } }
""".strip()


def to_html(title: str, sections: Sequence[Section], generator: str = GENERATOR, headline: Sequence[str] = ()) -> str:
    """The page. All text is escaped; the same content gives the same page.

    Args:
        title: Title of the page.
        sections: Its parts, in order.
        generator: The mark of the command that writes it.
        headline: The result in sentences, the most important first.
    """
    body = [f"<h1>{escape(title)}</h1>"]
    if headline:
        body += ['<div class="headline">', *map(_paragraph, headline), "</div>"]
    body.append(_contents(sections))
    for number, section in enumerate(sections, 1):
        body += _section(section, number)
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            generator,
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{_STYLE}\n</style></head>",
            "<body><main>",
            *body,
            "</main></body></html>\n",
        ]
    )


def _contents(sections: Sequence[Section]) -> str:
    entries = (f'<li><a href="#s{n}">{escape(section.title)}</a></li>' for n, section in enumerate(sections, 1))
    return f'<nav aria-label="Contents"><ul>{"".join(entries)}</ul></nav>'


def _section(section: Section, number: int) -> list[str]:
    parts = [f'<section aria-labelledby="s{number}"><h2 id="s{number}">{escape(section.title)}</h2>']
    parts += map(_paragraph, section.text)
    if section.items:
        parts += ["<dl>", *map(_item, section.items), "</dl>"]
    tables = [_table(table, section.title) for table in section.tables]
    figures = [_figure(drawing, f"s{number}f{n}") for n, drawing in enumerate(section.drawings)]
    if len(tables) == len(figures) == 1:
        tables, figures = [*tables, *figures], []
    if tables:
        parts += ['<div class="beside">', *tables, "</div>"]
    if section.legend:
        marks = ((mark.replace("<svg ", "<svg aria-hidden='true' ", 1), name) for mark, name in section.legend)
        words = (f"<li>{mark}{escape(name)}</li>" for mark, name in marks)
        parts.append(f'<ul class="legend">{"".join(words)}</ul>')
    if figures:
        parts += ['<div class="figures">', *figures, "</div>"]
    return [*parts, *map(_paragraph, section.below), "</section>"]


def _paragraph(text: str) -> str:
    return f"<p>{_breakable(text)}</p>"


def _breakable(text: str) -> str:
    """Text that may be wrapped between the options of an architecture."""
    return re.sub(r",(?=\S)", ",<wbr>", escape(text))


def _item(item: Item) -> str:
    link = f' <a href="{escape(item.url)}">{escape(item.url)}</a>' if item.url.startswith(("https:", "http:")) else ""
    return f"<dt>{escape(item.term)}</dt><dd>{escape(item.text)}{link}</dd>"


def _table(table: Table, of: str) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in (table.first, *table.columns))
    lines = []
    for method, cells in table.rows:
        shown = "".join(f"<td{' class=best' if cell.best else ''}>{escape(cell.text)}</td>" for cell in cells)
        lines.append(f'<tr><th scope="row">{escape(method)}</th>{shown}</tr>')
    below = f'<p class="small">{escape(table.common)}</p>' if table.common else ""
    name = f"<caption>{_breakable(table.title)}</caption>" if table.title else ""
    return "\n".join(
        [
            f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title or of)}"><table>{name}',
            f"<thead><tr>{head}</tr></thead>",
            "<tbody>",
            *lines,
            f"</tbody></table>{below}</div>",
        ]
    )


def _figure(drawing: Drawing, name: str) -> str:
    panels = drawing.panels or (in_ink(drawing.svg),)
    widths = re.findall(r'<svg [^>]*?width="([0-9.]+)pt"', panels[0])
    limit = f' style="max-width: {float(widths[0]) * 4 / 3:.0f}px"' if len(panels) == 1 and widths else ""
    return "\n".join(
        [
            f"<figure{limit}>",
            f'<div class="panels" role="img" aria-label="{escape(drawing.label)}" aria-describedby="{name}">',
            *panels,
            f'</div><figcaption id="{name}">{_breakable(drawing.caption)}</figcaption></figure>',
        ]
    )
