"""How training went in the runs of a comparison: losses, gradients, and losses that were not finite."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from lgx.core.rows import Row
from lgx.results.looks import label_of, method_order
from lgx.results.run_records import RunRecord
from lgx.results.sections import Section
from lgx.results.tables import Cell, Table

_COLUMNS = ("runs", "loss at start", "loss at end", "gradient norm at end", "runs with a loss that is not finite")


def health_section(rows: Iterable[Row], folders: Mapping[str, Path]) -> Section | None:
    """Training health of each method, as medians over its runs; None where no run has stored it.

    Args:
        rows: Rows of the runs.
        folders: Folder of each run by the run's name.
    """
    found: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for row in rows:
        if row.run in found[row.method] or row.run not in folders:
            continue
        if isinstance(health := RunRecord(folders[row.run]).summary.get("health"), Mapping):
            found[row.method][row.run] = health
    lines = tuple((label_of(name), _cells(list(found[name].values()))) for name in sorted(found, key=method_order))
    lines = tuple(line for line in lines if line[1])
    if not lines:
        return None
    diverged = [
        f"{run} (step {health['first_non_finite_step']})"
        for runs in found.values()
        for run, health in runs.items()
        if health.get("first_non_finite_step") is not None
    ]
    text = ["Medians over runs; of the losses that the methods minimize, which differ between methods."]
    text += [f"Not finite from a step on: {', '.join(diverged)}."] if diverged else []
    return Section("Training health", text, [Table("", _COLUMNS, lines)])


def _cells(runs: list[Mapping[str, Any]]) -> tuple[Cell, ...]:
    if not runs:
        return ()
    medians = [_median(runs, key) for key in ("loss_at_start", "loss_at_end", "gradient_norm")]
    diverged = sum(health.get("first_non_finite_step") is not None for health in runs)
    return tuple(map(Cell, (str(len(runs)), *medians, str(diverged))))


def _median(runs: list[Mapping[str, Any]], key: str) -> str:
    values = [value for health in runs if isinstance(value := health.get(key), int | float)]
    return f"{median(values):.4g}" if values else "-"
