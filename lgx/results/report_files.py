"""Write a report to a folder: ``report.html``, ``results.md`` and its figures."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from lgx.core.rows import write_rows
from lgx.errors import UserError
from lgx.host.files import atomic_path, check_output, has_mark
from lgx.results.comparison import Comparison
from lgx.results.figures import compute_section, size_section
from lgx.results.merging import MARKDOWN, REPORT, RESULTS, TITLE, is_comparison
from lgx.results.report import GENERATOR, Report, to_html, to_markdown_page

_FIGURES = ("depth-*.svg", "compute-*.svg")
COMMAND = "lgx compare"


def report_path(out: str | Path, files: Iterable[Path], force: bool) -> Path:
    """Path of the page.

    Args:
        out: Folder, or path ending in .html.
        files: Results files that are read.
        force: Whether files that lgx did not write may be replaced, except those that are read.
    """
    page = Path(out) if Path(out).suffix == ".html" else Path(out) / REPORT
    folder = page.parent
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out {out}: {folder} is a file; give a folder or a path ending in .html")
    # A comparison that is compared again keeps its rows.
    measured = [file for file in files if not is_comparison(file)]
    figures = (figure for name in _FIGURES for figure in folder.glob(name))
    is_own = has_mark(folder / MARKDOWN, f"# {TITLE}\n")
    check_output(page, COMMAND, lambda file: has_mark(file, GENERATOR), force=force, reads=measured)
    for path in (folder / RESULTS, folder / MARKDOWN, *figures):
        check_output(path, COMMAND, lambda _: is_own, force=force, reads=measured)
    return page


def write_comparison(comparison: Comparison, page: Path) -> list[str]:
    """Write a comparison with its figures and all of its rows.

    Args:
        comparison: The comparison.
        page: What :func:`report_path` gives; the other files are written beside it.

    Returns:
        Names of the other files.
    """
    report = whole_report(comparison)
    figures = {f"{figure.name}.svg": figure.svg for section in report.sections for figure in section.figures}
    # First the file by which a later report knows that it may replace the others, should one of them fail
    for name, text in {MARKDOWN: to_markdown_page(report), **figures, page.name: to_html(report)}.items():
        with atomic_path(page.parent / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    write_rows(page.parent / RESULTS, comparison.merged.rows)
    return [RESULTS, MARKDOWN, *figures]


def whole_report(comparison: Comparison) -> Report:
    """The report of a comparison with its figures."""
    shown, metric = comparison.rows, comparison.options.metric
    sections = [*comparison.report.sections, size_section(shown, metric)]
    if comparison.curves:
        sections.append(compute_section(comparison.curves, metric))
    return replace(comparison.report, sections=[*filter(None, sections)])
