"""Choose the measurements that represent a run: those at epoch 0, and its last."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from lgx.core.rows import Row

Run = tuple[str, str, str, str, int]


def last_epochs(rows: Sequence[Row], also: Collection[int] = ()) -> tuple[list[Row], list[str]]:
    """Keep the rows of epoch 0 and of each run's last epoch.

    Args:
        rows: Rows of one metric and one split.
        also: Other epochs to keep: those for which a paper has numbers.

    Returns:
        The rows that are kept, and a note on the others.
    """
    last = _last(rows)
    kept = [row for row in rows if row.epochs in (0, *also, last[_run(row)])]
    left_out = len(rows) - len(kept)
    return kept, [f"{left_out} value(s) from the middle of training are left out of the tables."] if left_out else []


def count_whole_runs(
    rows: Sequence[Row], of_runs: Iterable[Row], also: Collection[int] = ()
) -> tuple[list[Row], list[str]]:
    """Give the test of an earlier checkpoint the epochs of its run.

    The best epoch differs between seeds, so tests of best checkpoints would not be averaged over seeds otherwise.

    Args:
        rows: The rows that :func:`last_epochs` keeps.
        of_runs: All rows of the runs, of any split and metric, which determine the lengths of the runs.
        also: Epochs that are not changed: those for which a paper has numbers.

    Returns:
        The rows, and a note on those that were changed.
    """
    length = _last(of_runs)
    counted = [
        row if row.epochs in (0, *also) else replace(row, epochs=max(row.epochs, length.get(_run(row), 0)))
        for row in rows
    ]
    earlier = sum(new.epochs != row.epochs for new, row in zip(counted, rows, strict=True))
    note = f"{earlier} value(s) were measured on a checkpoint before the end of its run, for example the best one."
    return counted, [note] if earlier else []


def _run(row: Row) -> Run:
    return row.run, row.method, row.architecture, row.task, row.seed


def _last(rows: Iterable[Row]) -> dict[Run, int]:
    last: dict[Run, int] = {}
    for row in rows:
        last[_run(row)] = max(row.epochs, last.get(_run(row), 0))
    return last
