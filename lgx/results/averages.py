"""One number for a method: its mean over tasks and architectures."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from lgx.core.rows import Row

AVERAGE = "average"


def average(rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """Average over tasks and architectures, method by method and seed by seed.

    Means of different cells say nothing about methods, so a method must have all that any has.

    Args:
        rows: Rows of one metric and one split.

    Returns:
        A row for each method, seed and number of epochs, and a note on each method that lacks something.
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
                continue
            first = next(iter(own.values()))
            mean, n = fmean(row.value for row in own.values()), sum(row.n for row in own.values())
            found.append(replace(first, task=AVERAGE, architecture=AVERAGE, value=mean, n=n))
        when = "untrained" if epochs == 0 else f"after {epochs} epoch(s)"
        notes += [
            f"{method} is left out of the averages {when}: {count} of {len(cells)} cells are missing for some seed."
            for method, count in lacking.items()
        ]
    return found, notes
