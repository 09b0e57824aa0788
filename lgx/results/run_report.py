"""The page of a finished run: its networks with scores and costs, and the pictures of its test."""

from collections.abc import Sequence
from pathlib import Path

from lgx.architectures.cost import cost_of
from lgx.components.class_metrics import interval
from lgx.core.provenance import hardware
from lgx.core.readable import in_words, measured
from lgx.core.rows import Evaluation, Row, read_rows
from lgx.core.task import BALANCED
from lgx.host.files import atomic_path
from lgx.initialization.sizing import Stopwatch, amount
from lgx.methods.base import Method
from lgx.results.merging import REPORT
from lgx.results.report import EMPTY_CELL, Cell, Report, ReportFigure, Section, Table, to_html


def write_run_report(folder: Path, method: Method) -> Path | None:
    """Write ``report.html`` from the files in a run's folder.

    Args:
        folder: The run's folder.
        method: The trained method, which knows its networks.

    Returns:
        The page; None if no network was measured.
    """
    networks = [*method.classifiers().values()]
    epochs = method.epochs_trained
    path = folder / "results.csv"
    rows = [row for row in read_rows(path) if row.epochs == epochs] if path.is_file() else []
    split = "test" if any(row.split == "test" for row in rows) else "val"
    scores: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row.split == split:
            scores.setdefault((row.task, row.architecture), row)  # the main metric comes first
    if not any((each.task, each.architecture) in scores for each in networks):
        return None
    sizes = {each.architecture for each in networks}
    tasks = dict.fromkeys(each.task for each in networks)
    table = _table(method, networks, scores, split)
    what = f"networks of {len(sizes)} sizes" if len(sizes) > 1 else table.rows[0][0]
    pictures = {"Sizes": [("front", "Validation scores; the line joins sizes better than every smaller size.")]}
    if split == "test":
        pictures["Confusions"] = [(each.stem("confusion"), each.name) for each in networks]
    sections = [Section("Networks", tables=[table])]
    for title, wanted in pictures.items():
        figures = [_figure(folder, name, caption) for name, caption in wanted if (folder / f"{name}.svg").is_file()]
        sections += [Section(title, figures=figures)] if figures else []
    about = f"Method {method.label}, {epochs} epoch(s), run {folder}."
    report = Report(f"{', '.join(tasks)}: {what}", [about], sections)
    with atomic_path(folder / REPORT) as temporary:
        temporary.write_text(to_html(report, "lgx fit"), encoding="utf-8")
    return folder / REPORT


def _table(method: Method, networks: Sequence[Evaluation], scores: dict[tuple[str, str], Row], split: str) -> Table:
    """Score and cost of each network; the latency only of networks that read images."""
    lines: list[tuple[str, tuple[Cell, ...]]] = []
    stopwatch = Stopwatch()
    columns = ["parameters", "MB", "MACs"]
    for each in networks:
        row = scores.get((each.task, each.architecture))
        network = method.evaluated(each)
        cost = cost_of(network)
        cells = [_score(row), f"{row.n:,}"] if row else [EMPTY_CELL, EMPTY_CELL]
        cells += [amount("params", cost.parameters), f"{4e-6 * cost.parameters:.3g}", amount("macs", cost.macs)]
        cells += [] if network.reads_text else [f"{1e3 * stopwatch.measure(network):.3g}"]
        lines.append((each.name or f"{network.depth}x{network.embed_dim}", tuple(map(Cell, cells))))
    common, examples = "In brackets: Wilson's 95 % interval. MB: a file in float32.", "texts"
    if stopwatch.measured:
        common += f" ms: median of forward passes of one image in float32, on {hardware(on_gpu=False)}."
        examples = "images"
        columns = [*columns, "ms"]
    metric = next((in_words(row.metric) for row in scores.values()), "score")
    place = {"val": "validation"}.get(split, split)
    return Table("", (f"{place} {metric}", f"{place} {examples}", *columns), tuple(lines), common, first="network")


def _score(row: Row) -> str:
    """``84.2 % (79.0 to 88.3)``; the interval of a share of examples alone."""
    value = measured(row.value, row.metric, row.n)
    if not row.metric.endswith("acc") or row.metric == BALANCED:
        return value
    low, high = interval(row.value, row.n)
    return f"{value} ({100 * low:.1f} to {100 * high:.1f})"


def _figure(folder: Path, name: str, caption: str) -> ReportFigure:
    """A figure of the run, which shrinks to the width of the page."""
    svg = (folder / f"{name}.svg").read_text(encoding="utf-8")
    return ReportFigure(name, svg.replace("<svg", '<svg style="max-width: 100%"', 1), name, caption)
