"""``lgx arena``: compare starts of descendants by accuracy against total compute."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jsonargparse.typing import PositiveInt

if TYPE_CHECKING:
    from lgx.commands.sweep import Execution
    from lgx.core.rows import Row
    from lgx.results.arena.verdicts import Curves


def arena(
    file: str,
    runs_dir: str = "runs",
    results: str | None = None,
    out: str | None = None,
    dry_run: bool = False,
    overwrite: bool = False,
    parallel: PositiveInt = 1,
    cluster: Literal["local", "slurm"] = "local",
    slurm: dict[str, Any] | None = None,
    metric: str | None = None,
    force: bool = False,
) -> None:
    """Compare starts by accuracy against total compute: is a learngene better than its alternatives?

    The total compute of a descendant is its own training, the computation of its start, and its share of the training
    of all sources behind it: learngenes, distilled networks, fine-tuned teachers. In a first round, every size is
    trained on every task, from every start and with every budget. In a second round, training from scratch gets as much
    compute as the costliest start. The same command resumes a stopped arena. When all runs are measured, it only writes
    the report.

    Example: lgx arena experiments/arena/pocket.yaml --dry_run

    Args:
        file: Arena file, e.g. experiments/arena/pocket.yaml.
        runs_dir: Folder of all runs.
        results: CSV file that collects accuracies and costs; by default measured.csv in the experiment's folder.
        out: Folder for report.html, results.md and the curves as SVG; by default the experiment's folder.
        dry_run: Print the command lines of the first round instead of running them.
        overwrite: Run again the finished runs whose options or configuration have changed, and the runs that need them.
        parallel: Number of runs at a time; see lgx sweep.
        cluster: slurm submits the runs as job arrays.
        slurm: submitit's parameters of SLURM jobs; see lgx sweep.
        metric: Metric to compare; by default acc, or balanced_acc if the classes of a test have different sizes.
        force: Replace files in --out that lgx arena did not write. The results are never replaced.
    """
    from lgx.commands.sweep import Execution

    how = Execution(parallel, cluster, slurm, overwrite, dry_run)
    run_arena(file, runs_dir, results, out, how, metric, force)


def run_arena(
    file: str, runs_dir: str, results: str | None, out: str | None, how: "Execution", metric: str | None, force: bool
) -> None:
    """Run what is missing, then write the report; see :func:`arena`."""
    from lgx.commands.sweep import run_pending
    from lgx.core.rows import read_rows
    from lgx.errors import UserError
    from lgx.results.arena.arena_file import load_arena
    from lgx.results.arena.points import read_points
    from lgx.results.arena.report import TITLE, report_of, whole_report
    from lgx.results.arena.rounds import longer_scratch, needed_now, rows_with_costs
    from lgx.results.metrics import fair_metric, lower_is_better
    from lgx.results.report_files import report_path, write_report
    from lgx.results.terminal import print_report

    if metric is not None and lower_is_better(metric):
        raise UserError(
            f"--metric {metric}: smaller values are better, but an arena compares accuracies; give e.g. acc"
        )
    whole = load_arena(file, runs_dir)
    folder = Path(runs_dir) / whole.experiment
    collected = Path(results) if results else folder / "measured.csv"
    page = report_path(out or folder, [collected], force, "lgx arena", TITLE)
    for start in whole.starts if how.dry_run else ():
        if absent := set(whole.sizes) - set(whole.sizes_of(start)):
            print(f"left out   {start}: {', '.join(sorted(absent))}: the arena's file does not give it")

    def run_round(longer: Mapping[tuple[str, str], int]) -> "Curves":
        runs = whole.sweep(longer)
        run_pending(file, needed_now(whole, runs, collected), collected, how, rows_with_costs(whole, runs))
        rows = read_rows(collected) if collected.is_file() else []
        measured = {row.metric for row in rows if row.split == "test" and whole.measured_by(row.run)}
        if measured and metric is not None and metric not in measured:
            raise UserError(f"--metric {metric}: no run measured it; the runs measured {', '.join(sorted(measured))}")
        return read_points(whole, rows, judged_on(rows)[0])

    def judged_on(rows: "Sequence[Row]") -> tuple[str, list[str]]:
        own = [row for row in rows if whole.measured_by(row.run) and not lower_is_better(row.metric)]
        return fair_metric(own, {row.run: Path(row.run) for row in own}) if metric is None else (metric, [])

    try:
        curves = run_round({})
        if not how.dry_run and (longer := longer_scratch(whole, curves)):
            run_round(longer)
    finally:  # also if some runs of the arena have failed
        if not how.dry_run and collected.is_file():
            rows = [row for row in read_rows(collected) if whole.measured_by(row.run)]
            judged, notes = judged_on(rows)
            if points := read_points(whole, rows, judged):
                print_report(report_of(whole, points, rows, notes))
                written = write_report(whole_report(whole, points, rows, notes), page)
                print(f"wrote {page}, and beside it {', '.join(written)}")
