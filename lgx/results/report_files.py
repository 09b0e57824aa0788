"""Write a comparison as one page, ``report.html``."""

from dataclasses import replace
from pathlib import Path

from lgx.errors import UserError
from lgx.host.files import atomic_path, check_output, has_mark
from lgx.results.comparison import Comparison
from lgx.results.figures import compute_section, size_section
from lgx.results.merging import REPORT
from lgx.results.report import generator, to_html

_COMMAND = "lgx compare"


def report_path(out: str | Path, force: bool) -> Path:
    """Path of the page.

    Args:
        out: Folder, or path ending in .html.
        force: Whether a page that another command or program wrote may be replaced.
    """
    page = Path(out) if Path(out).suffix == ".html" else Path(out) / REPORT
    folder = page.parent
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out {out}: {folder} is a file; give a folder or a path ending in .html")
    check_output(page, _COMMAND, lambda file: has_mark(file, generator(_COMMAND)), force=force)
    return page


def write_comparison(comparison: Comparison, page: Path) -> None:
    """Write a comparison with its figures.

    Args:
        comparison: The comparison.
        page: What :func:`report_path` gives.
    """
    metric = comparison.options.metric
    sections = [*comparison.report.sections, size_section(comparison.rows, metric)]
    if comparison.curves:
        sections.append(compute_section(comparison.curves, metric))
    report = replace(comparison.report, sections=[*filter(None, sections)])
    with atomic_path(page) as temporary:
        temporary.write_text(to_html(report, _COMMAND), encoding="utf-8")
