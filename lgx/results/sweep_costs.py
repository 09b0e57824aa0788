"""What the runs of a sweep with starts cost: rows beside those of their tests, and the longer training from scratch."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import ceil
from pathlib import Path
from statistics import fmean

from lgx.core.rows import Row
from lgx.results.compute import FLOPS, LEARNING, SECONDS, SHARED, WITHIN, read_curves
from lgx.results.run_records import RunRecord, Work
from lgx.runs.jobs import Job
from lgx.runs.scheduler import run_rows
from lgx.runs.starts import Cell, Starts
from lgx.runs.sweeps import Sweep, needed_runs


def rows_by_start(starts: Starts, rows: Iterable[Row]) -> list[Row]:
    """The rows of runs of starts, with the names of start (as method), task and size in the sweep file."""
    cells = ((row, starts.cell_of(Path(row.run).parent.name)) for row in rows)
    return [replace(row, method=cell.start, task=cell.task, architecture=cell.size) for row, cell in cells if cell]


def longer_scratch(starts: Starts, rows: Iterable[Row]) -> dict[Cell, int]:
    """Epochs of training from scratch with the compute of the costliest start, where it was trained shorter.

    Args:
        starts: The starts.
        rows: Rows of their runs.
    """
    curves = read_curves(rows_by_start(starts, rows), FLOPS)
    planned = starts.epochs(starts.scratch)
    longer = {}
    for place, curve in curves.get(starts.scratch, {}).items():
        trained = [point for point in curve if point.epochs in planned and point.epochs]
        others = [point for method, of in curves.items() if method != starts.scratch for point in of.get(place, ())]
        most = max((point.flops for point in [*others, *trained]), default=0.0)
        if trained and most > trained[-1].flops * WITHIN:
            per_epoch = fmean(point.flops / point.epochs for point in trained)
            longer[Cell(*place, starts.scratch)] = ceil(most / per_epoch)
    return longer


def rows_with_costs(sweep: Sweep) -> Callable[[Job], list[Row]]:
    """The rows of a finished run of a sweep with starts: those of its test, and its cost."""
    shares = sweep.starts.shares(needed_runs(sweep), sweep.runs_dir) if sweep.starts else {}

    def rows_of(job: Job) -> list[Row]:
        rows = run_rows(job)
        costs = cost_rows(RunRecord(Path(job.folder), tuple(rows)), shares[job.folder]) if job.folder in shares else []
        return [*rows, *costs]

    return rows_of


def cost_rows(record: RunRecord, sources: Mapping[str, int]) -> list[Row]:
    """Rows of what a run counted of its cost, with the run's method, task and provenance.

    Args:
        record: A finished run.
        sources: Folders of the runs of sources behind it, each with the number of tasks × sizes that share it.
    """
    test = max((row for row in record.rows if row.split == "test"), key=lambda row: row.epochs, default=None)
    if test is None:
        return []
    behind = [(RunRecord.at(Path(folder)), cells) for folder, cells in sources.items()]
    trained = record.work if test.epochs else Work()
    costs = {"": trained}
    for suffix, shared in ((LEARNING, False), (SHARED, True)):
        costs[suffix] = sum((run.work.shared(cells if shared else 1) for run, cells in behind), Work())
    values = {FLOPS + suffix: work.flops for suffix, work in costs.items()}
    values |= {SECONDS + suffix: work.seconds for suffix, work in costs.items()}
    return [replace(test, metric=metric, value=value) for metric, value in values.items() if value is not None]
