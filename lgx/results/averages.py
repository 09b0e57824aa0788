"""Means over tasks and architectures."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean

from lgx.core.rows import Row
from lgx.results.paper import AVERAGE, PaperTable


def average(rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """Average over tasks and architectures, for each method, seed and number of epochs.

    Means over different cells do not compare, so a method is left out unless it has every cell that any method has.

    Args:
        rows: Rows of one metric and one split.

    Returns:
        A row for each method, seed and number of epochs, and a note on each method that is left out.
    """
    found, notes = [], []
    for epochs in sorted({row.epochs for row in rows}):
        of_epochs = [row for row in rows if row.epochs == epochs]
        cells = {(row.task, row.architecture) for row in of_epochs}
        lacking: dict[str, int] = {}
        for method, seed in sorted({(row.method, row.seed) for row in of_epochs}):
            own = {(r.task, r.architecture): r for r in of_epochs if (r.method, r.seed) == (method, seed)}
            if cells - own.keys():
                lacking[method] = max(lacking.get(method, 0), len(cells - own.keys()))
            else:
                found.append(replace(_mean(list(own.values())), architecture=AVERAGE))
        when = "untrained" if epochs == 0 else f"after {epochs} epoch(s)"
        notes += [
            f"{method} is left out of the averages {when}: {count} of {len(cells)} cells are missing for some seed."
            for method, count in lacking.items()
        ]
    return found, notes


def averages_of_paper(rows: Iterable[Row], paper: PaperTable) -> list[Row]:
    """Rows of the task ``average`` for a table that has it, wherever all of its tasks were measured.

    Args:
        rows: Rows of one metric and one split.
        paper: The table; without other tasks than ``average`` there are no such rows.
    """
    tasks = {row.task for row in paper.rows}
    if AVERAGE not in tasks or len(tasks) == 1:
        return []
    groups: dict[tuple[str, str, int, int], dict[str, Row]] = {}
    for row in rows:
        groups.setdefault((row.method, row.architecture, row.epochs, row.seed), {})[paper.task_name(row.task)] = row
    members = sorted(tasks - {AVERAGE})
    complete = [measured for measured in groups.values() if measured.keys() >= set(members)]
    return [_mean([measured[task] for task in members]) for measured in complete]


def _mean(rows: Sequence[Row]) -> Row:
    mean, n = fmean(row.value for row in rows), sum(row.n for row in rows)
    return replace(rows[0], task=AVERAGE, value=mean, n=n)
