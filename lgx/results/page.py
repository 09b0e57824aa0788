"""``report.html``: one page that needs no other file, no script and no network."""

from collections.abc import Sequence
from html import escape

from lgx.results.sections import Drawing, Section
from lgx.results.tables import Table

GENERATOR = '<meta name="generator" content="lgx compare">'
"""The mark by which a page says that lgx wrote it."""

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


def to_html(title: str, introduction: Sequence[str], sections: Sequence[Section], generator: str = GENERATOR) -> str:
    """The page. All text is escaped; the same content gives the same page.

    Args:
        title: Title of the page.
        introduction: Paragraphs below it.
        sections: Its parts, in order.
        generator: The mark of the command that writes it.
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
            generator,
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{_STYLE}\n</style></head>",
            "<body><main>",
            *body,
            "</main></body></html>\n",
        ]
    )


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
