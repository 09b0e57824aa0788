"""What a run of an arena cost, as rows beside its accuracy: floating-point operations and seconds."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from lgx.core.rows import Row
from lgx.errors import UserError
from lgx.planning.plan import make_plan
from lgx.results.lineage import Lineage
from lgx.results.run_records import CONFIG, RunRecord

FLOPS = "flops"
"""FLOPs of the descendant's own training and of the computation of its start."""
SECONDS = "seconds"
"""Wall time of the descendant's run, s."""
LEARNING, SHARED = "_sources", "_sources_shared"
"""Suffixes: of the training of all sources behind a start, and of the share that one task and size has in it."""


def cost_rows(record: RunRecord, sources: Mapping[str, int]) -> list[Row]:
    """Rows of a run's cost, with the run's method, task and provenance.

    FLOPs are those of matrix products, two per multiply-accumulate; a training step has three forward passes through
    the trained network and one through the teacher. Evaluation is not counted.

    Args:
        record: A finished run.
        sources: Folders of the runs of sources behind it, each with the number of tasks × sizes that share it.
    """
    test = next((row for row in record.rows if row.split == "test"), None)
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

    Those of a plain network follow from its MACs; a method with a teacher or with varying networks is counted by its
    plan, which runs its loss.
    """
    macs = None if record.teacher else Lineage([record]).training(record).work.macs
    if macs is not None:
        return 2 * macs
    plan = make_plan(["--config", str(record.folder / CONFIG)])
    if plan.flops.teacher is None:
        raise UserError(f"{record.folder}: its teacher {record.teacher} is needed to count the FLOPs of its training")
    return plan.flops.example * (record.images or plan.steps.samples)
