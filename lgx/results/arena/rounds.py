"""The runs of an arena: all starts, then scratch with as much compute as the costliest, and what each run cost.

Rows beside the accuracy of a run hold its cost: floating-point operations and seconds.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil
from pathlib import Path
from statistics import fmean

from lgx.core.rows import Row, read_rows
from lgx.results.arena.arena_file import Arena
from lgx.results.arena.points import FLOPS, LEARNING, SECONDS, SHARED, WITHIN
from lgx.results.arena.verdicts import Curves
from lgx.results.merging import Place
from lgx.results.run_records import RunRecord
from lgx.runs.jobs import Job
from lgx.runs.scheduler import run_rows
from lgx.runs.sweeps import Sweep, all_behind, needed_runs


def needed_now(arena: Arena, sweep: Sweep, results: Path) -> Sweep:
    """The sweep without missing sources that no missing measurement needs."""
    measured = {row.run for row in read_rows(results)} if results.is_file() else set()
    cells, needs = arena.measurements(sweep), needed_runs(sweep)
    needed = {source for folder in cells if folder not in measured for source in all_behind(needs, folder)}
    runs = [run for run in sweep.runs if run.folder in cells or run.folder in needed or Path(run.folder).exists()]
    return replace(sweep, runs=tuple(runs))


def rows_with_costs(arena: Arena, sweep: Sweep) -> Callable[[Job], list[Row]]:
    """Stored rows of a finished run: its test rows under the name of its start, and its cost."""
    sharing = arena.sharing(sweep)

    def rows_of(job: Job) -> list[Row]:
        rows = run_rows(job)
        if job.folder not in sharing:
            return rows
        record = RunRecord(Path(job.folder), tuple(rows))
        return [*rows, *cost_rows(record, sharing[job.folder])]

    return rows_of


def longer_scratch(arena: Arena, curves: Curves) -> dict[Place, int]:
    """Epochs from scratch with the total compute of the costliest start, if the file's budgets are smaller."""
    longer = {}
    for place, curve in curves.get(arena.scratch, {}).items():
        trained = [point for point in curve if point.budget in arena.budgets(arena.scratch) and point.budget]
        if not trained:
            continue
        most = max(
            p.flops.total for found in curves.values() for p in found.get(place, ()) if p not in curve or p in trained
        )
        if most > trained[-1].flops.total * WITHIN:
            longer[place] = ceil(most / fmean(point.flops.total / point.budget for point in trained))
    return longer


def cost_rows(record: RunRecord, sources: Mapping[str, int]) -> list[Row]:
    """Rows of a run's cost, with the run's method, task and provenance.

    FLOPs are those of matrix products, two per multiply-accumulate; a training step has three forward passes through
    the trained network and one through the teacher. Evaluation is not counted.

    Args:
        record: A finished run.
        sources: Folders of the runs of sources behind it, each with the number of tasks × sizes that share it.
    """
    test = max((row for row in record.rows if row.split == "test"), key=lambda row: row.epochs, default=None)
    if test is None:
        return []
    behind = [(RunRecord.at(Path(folder)), cells) for folder, cells in sources.items()]
    flops = record.flops if test.epochs else 0.0
    if None in (flops, *(run.flops for run, _ in behind)):
        return []
    values = {FLOPS: flops, SECONDS: record.summary.get("seconds", 0.0)}
    for suffix, shared in ((LEARNING, False), (SHARED, True)):
        each = [(run, cells if shared else 1) for run, cells in behind]
        values[FLOPS + suffix] = sum((run.flops or 0.0) / share for run, share in each)
        values[SECONDS + suffix] = sum(run.summary["seconds"] / share for run, share in each)
    return [replace(test, metric=metric, value=float(value or 0.0)) for metric, value in values.items()]
