"""Write a comparison to a folder: ``report.html``, ``results.md``, ``results.csv`` and the figures by depth."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lgx.core.rows import write_rows
from lgx.errors import UserError
from lgx.host.files import atomic_path
from lgx.host.outputs import check_file, has_mark
from lgx.results.comparison import Comparison
from lgx.results.curves import curves_of_runs
from lgx.results.drawings import average_drawing, curve_section, depth_section
from lgx.results.headline import AVERAGES
from lgx.results.looks import styles
from lgx.results.markdown import to_markdown_page
from lgx.results.merging import MARKDOWN, REPORT, RESULTS, TITLE, is_comparison
from lgx.results.origin import origin_section
from lgx.results.page import GENERATOR, to_html
from lgx.results.sections import Section, method_section

_COMMAND = "lgx compare"


def report_path(out: str, files: Sequence[Path], force: bool = False) -> Path:
    """Path of the page.

    Args:
        out: Folder, or path ending in .html.
        files: Results files that are compared.
        force: Whether files that no comparison wrote may be replaced, except those that are compared.

    Raises:
        UserError: If the folder is a file, or the report would replace another file than that of a comparison.
    """
    page = Path(out) if Path(out).suffix == ".html" else Path(out) / REPORT
    if page.parent.exists() and not page.parent.is_dir():
        raise UserError(f"--out {out}: {page.parent} is a file; give a folder or a path ending in .html")
    # A comparison that is compared again keeps its rows.
    measured = [file for file in files if not is_comparison(file)]
    check_file(page, _COMMAND, lambda file: has_mark(file, GENERATOR), force=force, reads=measured)
    for path in (page.parent / RESULTS, page.parent / MARKDOWN, *page.parent.glob("depth-*.svg")):
        check_file(path, _COMMAND, is_comparison, force=force, reads=measured)
    return page


def write_report(comparison: Comparison, page: Path) -> list[str]:
    """Write a comparison.

    Args:
        comparison: The comparison.
        page: What :func:`report_path` gives; the other files are written beside it.

    Returns:
        Names of the other files.

    Raises:
        UserError: If a file cannot be written.
    """
    options, rows = comparison.options, comparison.merged.rows
    looks = styles({row.method for row in rows})
    depths = depth_section(comparison.shown, options.metric, looks, comparison.levels)
    curves = curve_section(curves_of_runs(rows, comparison.merged.folders, options.metric, options.split), looks)
    methods = method_section({row.method for row in comparison.shown})
    origin = origin_section(comparison.shown, comparison.merged.files)
    figures = [section for section in (depths, curves) if section]
    first, details = _split(comparison)
    markdown = to_markdown_page(
        TITLE, [*comparison.headline, *comparison.introduction], [*first, methods, *details, origin]
    )
    pictures = {f"depth-{number}.svg": drawing.svg for number, drawing in enumerate(depths.drawings if depths else ())}
    if first and (drawing := average_drawing(comparison.standings, looks, comparison.levels)):
        first = [replace(first[0], drawings=[drawing])]
    sections = [*first, methods, *details, *figures, replace(origin, text=comparison.introduction[1:])]
    html = to_html(TITLE, sections, headline=comparison.headline)
    write_rows(page.parent / RESULTS, rows)
    for name, text in {**pictures, MARKDOWN: markdown, page.name: html}.items():
        with atomic_path(page.parent / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return [MARKDOWN, RESULTS, *pictures]


def _split(comparison: Comparison) -> tuple[list[Section], list[Section]]:
    """The averages, and what follows the explanation of the methods."""
    sections = comparison.sections
    return ([], sections) if sections and sections[0].title != AVERAGES else (sections[:1], sections[1:])
