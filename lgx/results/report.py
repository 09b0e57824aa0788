"""Write a comparison to a folder: ``report.html``, ``results.md``, ``results.csv`` and the figures by depth."""

from collections.abc import Sequence
from pathlib import Path

from lgx.core.files import atomic_path
from lgx.core.rows import write_rows
from lgx.errors import UserError
from lgx.results.comparison import Comparison
from lgx.results.curves import curves_of_runs
from lgx.results.drawings import curve_section, depth_section
from lgx.results.looks import styles
from lgx.results.markdown import to_markdown_page
from lgx.results.merging import MARKDOWN, REPORT, RESULTS, is_comparison
from lgx.results.page import to_html
from lgx.results.sections import method_section

_TITLE = "Comparison of initializations"


def report_path(out: str, files: Sequence[Path]) -> Path:
    """Path of the page.

    Args:
        out: Folder, or path ending in .html.
        files: Results files that are compared.

    Raises:
        UserError: If the folder is a file, or the report would replace one of the compared files.
    """
    page = Path(out) if Path(out).suffix == ".html" else Path(out) / REPORT
    if page.parent.exists() and not page.parent.is_dir():
        raise UserError(f"--out {out}: {page.parent} is a file; give a folder or a path ending in .html")
    results = page.parent / RESULTS
    if results.resolve() in {file.resolve() for file in files} and not is_comparison(results):
        raise UserError(f"--out {out}: would write over {results}, which a run measured; give another folder")
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
    depths = depth_section(comparison.shown, options.metric, looks)
    curves = curve_section(curves_of_runs(rows, comparison.merged.folders, options.metric, options.split), looks)
    methods = method_section({row.method for row in comparison.shown})
    figures = [section for section in (depths, curves) if section]
    markdown = to_markdown_page(_TITLE, comparison.introduction, [*comparison.sections, methods])
    pictures = {f"depth-{number}.svg": drawing.svg for number, drawing in enumerate(depths.drawings if depths else ())}
    html = to_html(_TITLE, comparison.introduction, [*comparison.sections, *figures, methods])
    write_rows(page.parent / RESULTS, rows)
    for name, text in {**pictures, MARKDOWN: markdown, page.name: html}.items():
        with atomic_path(page.parent / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return [MARKDOWN, RESULTS, *pictures]
