"""Tables and a report from any number of runs, and the verdicts on a paper's claims."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lgx.core.files import atomic_path
from lgx.core.rows import Row, read_rows, write_rows
from lgx.errors import UserError
from lgx.results.epochs import count_whole_runs, last_epochs

if TYPE_CHECKING:
    from lgx.results.claims import Claim, Verdict
    from lgx.results.report import Section, Seeds

RESULTS, MARKDOWN, REPORT = "results.csv", "results.md", "report.html"
_TITLE = "Comparison of initializations"


@dataclass(frozen=True)
class Merged:
    """Rows of all runs, one per measurement.

    Attributes:
        rows: The newest of the rows that say the same thing.
        folders: Where each run's files lie, by the run's name.
        notes: What was left out.
    """

    rows: list[Row]
    folders: dict[str, Path]
    notes: list[str]


@dataclass(frozen=True)
class Choice:
    """What of the rows is shown.

    Attributes:
        metric: Metric; ``acc`` is shown in percent.
        split: ``test``, ``val`` or ``train``.
        baseline: Method that all others are compared with, or None.
        methods: Names separated by commas; None for all.
        tasks: Names separated by commas; None for all.
    """

    metric: str = "acc"
    split: str = "test"
    baseline: str | None = None
    methods: str | None = None
    tasks: str | None = None


def show(
    runs: Sequence[str],
    choice: Choice,
    paper: str | None = None,
    out: str | None = None,
    average: bool = False,
    cost: bool = False,
    claims: "Sequence[Claim]" = (),
) -> "list[Verdict]":
    """Print what runs have measured, and write it as a report.

    Args:
        runs: Folders or files of rows.
        choice: What of it.
        paper: Table of a paper to set beside.
        out: Folder, or path ending in .html, to write to.
        average: Show each method's mean over tasks and architectures.
        cost: Also show what each method's descendants cost.
        claims: What the paper says of its methods.

    Returns:
        What the rows say of each claim.

    Raises:
        UserError: If there are no such runs, rows, table or method, or ``out`` cannot be written.
    """
    from lgx.results.averages import average as averages_of
    from lgx.results.claims import judge
    from lgx.results.paper import averages, load_table
    from lgx.results.report import claim_section, cost_section, difference_section, table_section

    metric, split, baseline = choice.metric, choice.split, choice.baseline
    table = load_table(paper).of_split(split) if paper else None
    if table and not any(row.metric == metric for row in table.rows):
        other = "--split test" if split == "train" else "--split train --metric loss"
        remedy = f"--metric {_list((row.metric for row in table.rows), ' or ')}" if table.rows else other
        raise UserError(f"{table.name} has no {metric}; give {remedy}")
    files = find_results(runs)
    page = _page(out, files) if out else None
    merged = merge(files)
    chosen = _only(_choose(merged.rows, metric, split), "task", choice.tasks)
    chosen = _only(chosen, "method", choice.methods)
    if baseline and baseline not in {row.method for row in chosen}:
        raise UserError(f"baseline {baseline!r} was not measured; methods are {_list(row.method for row in chosen)}")
    of_paper = {row.epochs or 0 for row in table.rows} if table else set()
    shown, left_out = last_epochs(chosen, of_paper)
    shown, earlier = count_whole_runs(shown, merged.rows, of_paper) if split == "test" else (shown, [])
    verdicts = [judge(claim, shown, metric, table) for claim in claims]
    notes = [*merged.notes, *left_out, *earlier]
    if average:
        shown, incomplete = averages_of(shown)
        notes += incomplete
    means = averages(shown, table) if table else []
    sections = [claim_section(verdicts)] if verdicts else []
    sections.append(table_section([*shown, *means], metric, split, table))
    if baseline:
        sections.append(difference_section(shown, metric, baseline))
    if cost:
        from lgx.results.schedules import method_costs

        costs, unknown = method_costs(chosen, merged.rows, merged.folders)
        notes += unknown
        sections.append(cost_section(costs))
    introduction = [_overview(shown), *notes]
    _print(introduction, sections)
    if page:
        _write(page, merged, shown, metric, split, introduction, sections)
    return verdicts


def find_results(runs: Sequence[str]) -> list[Path]:
    """Find the results files of runs; those that an earlier comparison wrote count only if there are no others.

    Args:
        runs: Folders or files.

    Raises:
        UserError: If a path does not exist or there is no results file at all.
    """
    found: list[Path] = []
    for run in map(Path, runs):
        if not run.exists():
            raise UserError(f"{run}: no such file or folder; give folders of runs or {RESULTS} files")
        if run.is_file() and run.suffix != ".csv":
            raise UserError(f"{run}: not a {RESULTS}; give folders of runs or {RESULTS} files")
        found += [run] if run.is_file() else sorted(run.rglob(RESULTS))
    unique = list({file.resolve(): file for file in found}.values())
    if not unique:
        raise UserError(f"no {RESULTS} in {', '.join(runs)}; a run writes one when it validates or tests")
    return [file for file in unique if not _is_comparison(file)] or unique


def merge(files: Sequence[Path]) -> Merged:
    """Read files and keep the newest row of each method, architecture, task, split, epochs, metric and seed.

    Newest is the row in the file that was changed last, within a file the last row.

    Raises:
        UserError: If a file is not a results file.
    """
    newest: dict[tuple[object, ...], Row] = {}
    folders: dict[str, Path] = {}
    files_of: dict[tuple[object, ...], Path] = {}
    replaced: dict[tuple[object, ...], tuple[Row, Path]] = {}
    for file in sorted(files, key=lambda file: (file.stat().st_mtime_ns, str(file))):
        rows = read_rows(file)
        alone = len({row.run for row in rows}) == 1
        for row in rows:
            what = row.key[:-1]
            old = newest.get(what)
            if old is not None and (old.run != row.run or (files_of[what] != file and old.value != row.value)):
                replaced[what] = old, files_of[what]
            newest[what], files_of[what] = row, file
            # A folder may have been moved since its rows were written.
            folders[row.run] = file.parent if alone else Path(row.run)
    notes = []
    if replaced:
        key, (loser, file) = next(iter(replaced.items()))
        # Two projects may have runs of the same name.
        names = (newest[key].run, loser.run) if newest[key].run != loser.run else (files_of[key], file)
        notes.append(
            f"{len(replaced)} value(s) were measured by several runs, the newest is shown: for example {loser.method}, "
            f"{loser.architecture}, {loser.task}, seed {loser.seed} from {names[0]}, not {names[1]}."
        )
    return Merged(list(newest.values()), folders, notes)


def _choose(rows: Sequence[Row], metric: str, split: str) -> list[Row]:
    of_metric = [row for row in rows if row.metric == metric]
    if not of_metric:
        raise UserError(f"no {metric} was measured; give --metric {_list((row.metric for row in rows), ' or ')}")
    chosen = [row for row in of_metric if row.split == split]
    if not chosen:
        there = _list((row.split for row in of_metric), " or ")
        raise UserError(f"no {metric} was measured on the {split} split; give --split {there}")
    return chosen


def _only(rows: Sequence[Row], kind: str, names: str | None) -> list[Row]:
    """Rows of the methods or tasks that are named."""
    if names is None:
        return list(rows)
    wanted, measured = set(names.split(",")), {getattr(row, kind) for row in rows}
    if unknown := wanted - measured:
        raise UserError(f"--{kind}s: {_list(unknown)} not measured; {kind}s are {_list(measured)}")
    return [row for row in rows if getattr(row, kind) in wanted]


def _overview(rows: Sequence[Row]) -> str:
    seeds = ", ".join(str(seed) for seed in sorted({row.seed for row in rows}))
    counts = sorted({row.n for row in rows})
    examples = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{len(rows)} values of {len({row.run for row in rows})} run(s), seeds {seeds}, {examples} examples each."


def _print(introduction: Sequence[str], sections: Sequence["Section"]) -> None:
    from rich.console import Console
    from rich.text import Text

    from lgx.results.tables import to_rich

    console = Console()
    for text in introduction:
        console.print(Text(text))
    for section in sections:
        console.print(Text(f"\n{section.title}", style="bold"))
        for table in section.tables:
            for view in to_rich(table, console.width):
                console.print(view)
        for text in section.text:
            console.print(Text(text))


def _write(
    page: Path,
    merged: Merged,
    shown: Sequence[Row],
    metric: str,
    split: str,
    introduction: Sequence[str],
    sections: Sequence["Section"],
) -> None:
    from lgx.results.figures import styles
    from lgx.results.report import curve_section, depth_section, to_html, to_markdown_page

    looks = styles({row.method for row in merged.rows})
    figures = [depth_section(shown, metric, looks), curve_section(_curves(merged, metric, split), looks)]
    html = to_html(_TITLE, introduction, [*sections, *(section for section in figures if section)])
    markdown = to_markdown_page(_TITLE, introduction, sections)
    write_rows(page.parent / RESULTS, merged.rows)
    depths = figures[0].drawings if figures[0] else ()
    pictures = {page.parent / f"depth-{number}.svg": drawing.svg for number, drawing in enumerate(depths)}
    for path, text in {**pictures, page.parent / MARKDOWN: markdown, page: html}.items():
        with atomic_path(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    print(f"wrote {page}, and beside it {', '.join([MARKDOWN, RESULTS, *(path.name for path in pictures)])}")


def _curves(merged: Merged, metric: str, split: str) -> dict[tuple[str, str], dict[str, "Seeds"]]:
    """Curves of the runs that trained one descendant; of several runs with one seed, the longest.

    Over the steps, as TensorBoard has them; of the training split over the epochs, whose means the rows are.
    """
    from lgx.results.curves import epoch_curve, read_curves

    tags = tuple(dict.fromkeys((f"val/{metric}", "val/loss", "train/loss")))
    rows_of: dict[str, list[Row]] = {}
    for row in merged.rows:
        rows_of.setdefault(row.run, []).append(row)
    found: dict[tuple[str, str], dict[str, Seeds]] = {}
    for run, rows in sorted(rows_of.items()):
        if len({(row.task, row.architecture, row.method, row.seed) for row in rows}) > 1:
            continue
        task, architecture, method, seed = rows[0].task, rows[0].architecture, rows[0].method, rows[0].seed
        over_epochs = [row for row in rows if (row.metric, row.split) == (metric, "train")]
        if split != "train":
            curves = read_curves(merged.folders[run], tags)
        else:
            curves = {f"train/{metric}": epoch_curve(over_epochs)} if over_epochs else {}
        for tag, curve in curves.items():
            seeds = found.setdefault((task, architecture), {}).setdefault(method, {})
            known = seeds.setdefault(seed, {}).get(tag)
            if known is None or known.steps[-1] < curve.steps[-1]:
                seeds[seed][tag] = curve
    return found


def _page(out: str, files: Sequence[Path]) -> Path:
    """Path of the report; refuses to write over what was measured."""
    page = Path(out) if Path(out).suffix == ".html" else Path(out) / REPORT
    if page.parent.exists() and not page.parent.is_dir():
        raise UserError(f"--out {out}: {page.parent} is a file; give a folder or a path ending in .html")
    results = page.parent / RESULTS
    if results.resolve() in {file.resolve() for file in files} and not _is_comparison(results):
        raise UserError(f"--out {out}: would write over {results}, which a run measured; give another folder")
    return page


def _is_comparison(results: Path) -> bool:
    return (results.parent / MARKDOWN).exists()


def _list(words: Iterable[str], joint: str = ", ") -> str:
    return joint.join(sorted(set(words)))
