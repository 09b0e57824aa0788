"""The two rounds of an arena's runs: all starts, then scratch with as much compute as the costliest of them."""

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from pathlib import Path
from statistics import fmean

from lgx.core.rows import Row, read_rows
from lgx.results.arena.arena_file import Arena
from lgx.results.arena.costs import cost_rows
from lgx.results.arena.points import WITHIN
from lgx.results.arena.verdicts import Curves
from lgx.results.merging import Place
from lgx.results.run_records import RunRecord
from lgx.runs.jobs import Job
from lgx.runs.scheduler import run_rows
from lgx.runs.sweeps import Sweep, all_behind, needed_runs


def needed_now(arena: Arena, sweep: Sweep, results: Path) -> Sweep:
    """The sweep without the sources that are gone and that no missing measurement needs."""
    measured = {row.run for row in read_rows(results)} if results.is_file() else set()
    cells, needs = arena.measurements(sweep), needed_runs(sweep)
    needed = {source for folder in cells if folder not in measured for source in all_behind(needs, folder)}
    runs = [run for run in sweep.runs if run.folder in cells or run.folder in needed or Path(run.folder).exists()]
    return replace(sweep, runs=tuple(runs))


def rows_with_costs(arena: Arena, sweep: Sweep) -> Callable[[Job], list[Row]]:
    """What is kept of a finished run: its test rows under the name of its start, and rows of its cost."""
    sharing = arena.sharing(sweep)

    def rows_of(job: Job) -> list[Row]:
        rows = run_rows(job)
        if job.folder not in sharing:
            return rows
        record = RunRecord(Path(job.folder), tuple(rows))
        return [*rows, *cost_rows(record, sharing[job.folder])]

    return rows_of


def longer_scratch(arena: Arena, curves: Curves) -> dict[Place, int]:
    """Epochs from scratch with as much total compute as the costliest start, where the file's budgets are smaller."""
    longer = {}
    for place, curve in curves.get(arena.scratch, {}).items():
        trained = [point for point in curve if point.budget in arena.budgets(arena.scratch) and point.budget]
        most = max(
            p.flops.total for found in curves.values() for p in found.get(place, ()) if p not in curve or p in trained
        )
        if trained and most > trained[-1].flops.total * WITHIN:
            longer[place] = ceil(most / fmean(point.flops.total / point.budget for point in trained))
    return longer
