"""Write a report to a folder: ``report.html``, ``results.md`` and its figures."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from lgx.core.rows import write_rows
from lgx.errors import UserError
from lgx.host.files import atomic_path, check_output, has_mark
from lgx.results.comparison import Comparison
from lgx.results.figures import average_figure, curve_section, curves_of_runs, depth_section, front_section
from lgx.results.headline import AVERAGES
from lgx.results.looks import styles
from lgx.results.markdown import GENERATOR, to_html, to_markdown_page
from lgx.results.merging import MARKDOWN, REPORT, RESULTS, TITLE, is_comparison
from lgx.results.provenance import method_section, origin_section
from lgx.results.report import Report

_FIGURES = ("averages.svg", "depth-*.svg", "curves-*.svg", "sizes.svg")


def report_path(
    out: str | Path, files: Iterable[Path], force: bool, command: str = "lgx compare", title: str = TITLE
) -> Path:
    """Path of the page.

    Args:
        out: Folder, or path ending in .html.
        files: Results files that are read.
        force: Whether files that lgx did not write may be replaced, except those that are read.
        command: The command that writes it.
        title: The title of its reports, by which their files in Markdown are known.
    """
    page = Path(out) if Path(out).suffix == ".html" else Path(out) / REPORT
    folder = page.parent
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out {out}: {folder} is a file; give a folder or a path ending in .html")
    # A comparison that is compared again keeps its rows.
    measured = [file for file in files if not is_comparison(file)]
    figures = (figure for name in _FIGURES for figure in folder.glob(name))
    is_own = has_mark(folder / MARKDOWN, f"# {title}\n")
    check_output(page, command, lambda file: has_mark(file, GENERATOR), force=force, reads=measured)
    for path in (folder / RESULTS, folder / MARKDOWN, *figures):
        check_output(path, command, lambda _: is_own, force=force, reads=measured)
    return page


def write_report(report: Report, page: Path) -> list[str]:
    """Write a report.

    Args:
        report: The report.
        page: What :func:`report_path` gives; the other files are written beside it.

    Returns:
        Names of the other files.
    """
    figures = {f"{figure.name}.svg": figure.svg for section in report.sections for figure in section.figures}
    # First the file by which a later report knows that it may replace the others, should one of them fail
    for name, text in {MARKDOWN: to_markdown_page(report), **figures, page.name: to_html(report)}.items():
        with atomic_path(page.parent / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return [MARKDOWN, *figures]


def write_comparison(comparison: Comparison, page: Path) -> list[str]:
    """Write a comparison with its figures and all of its rows.

    Returns:
        Names of the other files.
    """
    others = write_report(whole_report(comparison), page)
    write_rows(page.parent / RESULTS, comparison.merged.rows)
    return [RESULTS, *others]


def whole_report(comparison: Comparison) -> Report:
    """The report of a comparison with figures, and with what is known of its methods and rows."""
    options, merged, shown = comparison.options, comparison.merged, comparison.rows
    looks = styles({row.method for row in merged.rows})
    curves = curves_of_runs(merged.every, options.metric, options.split)
    depths = depth_section(shown, options.metric, looks, comparison.levels)
    figures = [depths, front_section(merged.files), curve_section(curves, looks)]
    methods = method_section({row.method for row in shown})
    first, *others = comparison.report.sections
    if first.title == AVERAGES:
        figure = average_figure(comparison.standings, looks, comparison.levels)
        sections = [replace(first, figures=[figure] if figure else []), methods, *others]
    else:
        sections = [methods, first, *others]
    origin = origin_section(shown, merged.files)
    return replace(comparison.report, sections=[*sections, *filter(None, figures), origin])
