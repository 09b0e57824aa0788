"""The runs of an arena: all starts, then scratch with as much compute as the costliest, and what each run cost.

Rows beside the accuracy of a run hold its cost: floating-point operations and seconds.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from math import ceil
from pathlib import Path
from statistics import fmean

from lgx.core.rows import Row, read_rows
from lgx.errors import UserError
from lgx.planning.plan import make_plan
from lgx.results.arena.arena_file import Arena
from lgx.results.arena.points import FLOPS, LEARNING, SECONDS, SHARED, WITHIN
from lgx.results.arena.verdicts import Curves
from lgx.results.lineage import Lineage
from lgx.results.merging import Place
from lgx.results.run_records import CONFIG, RunRecord
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
    values = {
        FLOPS: record.start_flops + (training_flops(record) if test.epochs else 0.0),
        SECONDS: float(record.summary.get("seconds", 0.0)),
    }
    behind = [(RunRecord.at(Path(folder)), cells) for folder, cells in sources.items()]
    each = [(training_flops(run) + run.start_flops, run.summary.get("seconds", 0.0), cells) for run, cells in behind]
    for suffix, shared in ((LEARNING, False), (SHARED, True)):
        values[FLOPS + suffix] = sum(flops / (cells if shared else 1) for flops, _, cells in each)
        values[SECONDS + suffix] = sum(seconds / (cells if shared else 1) for _, seconds, cells in each)
    return [replace(test, metric=metric, value=value) for metric, value in values.items()]


@cache  # runs of many starts have the same sources
def training_flops(record: RunRecord) -> float:
    """FLOPs of a run's training.

    For a plain network they follow from its MACs. A method with a teacher or with varying networks is counted by its
    plan, which runs its loss.
    """
    macs = None if record.teacher else Lineage([record]).work(record).macs
    if macs is not None:
        return 2 * macs
    plan = make_plan(["--config", str(record.folder / CONFIG)])
    if plan.flops.teacher is None:
        raise UserError(f"{record.folder}: its teacher {record.teacher} is needed to count the FLOPs of its training")
    return plan.flops.example * (record.images or plan.steps.samples)
