"""What runs cost: floating-point operations, time and memory, as each run has counted them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from lgx.core.rows import Row
from lgx.errors import UserError
from lgx.initialization.sizing import amount
from lgx.results.merging import folder_of_seeds, short_paths
from lgx.results.report import EMPTY_CELL, Cell, Section, Table
from lgx.results.run_records import RunRecord

COST = "Cost"
"""Title of the section with the cost."""


def cost_section(rows: Iterable[Row], folders: Mapping[str, Path]) -> Section:
    """The cost of all runs, of sources as well as of descendants: a line for each run, with means over its seeds.

    Args:
        rows: All rows of the runs.
        folders: Folder of each run by the run's name.
    """
    groups: dict[tuple[Path, str], list[RunRecord]] = {}
    for run, method in {row.run: row.method for row in rows}.items():
        record = RunRecord(folders[run])
        if record.summary:
            groups.setdefault((folder_of_seeds(str(folders[run])), method), []).append(record)
    if not groups:
        raise UserError("--cost: needs folders of finished runs, but found none; give folders of `lgx fit`")
    names = short_paths({folder for folder, _ in groups})
    lines = [(names[folder], (Cell(method), *_cells(records))) for (folder, method), records in groups.items()]
    text = (
        "Means over seeds. FLOPs are those that torch counted while a run trained, with its teacher and the start of "
        "its network. A dash means not counted."
    )
    columns = ("method", "seeds", "epochs", "FLOPs", "hours", "peak memory (GB)")
    return Section(COST, [text], [Table("Cost of the runs", columns, tuple(sorted(lines)), first="run")])


def _cells(records: Sequence[RunRecord]) -> tuple[Cell, ...]:
    flops = _mean([record.work.flops for record in records])
    seconds = _mean([record.work.seconds for record in records])
    epochs, peak = (_mean([record.summary.get(key) for record in records]) for key in ("epochs", "peak_bytes"))
    texts = (
        str(len(records)),
        EMPTY_CELL if epochs is None else f"{epochs:g}",
        EMPTY_CELL if flops is None else amount("macs", flops),
        EMPTY_CELL if seconds is None else f"{seconds / 3600:.3g}",
        EMPTY_CELL if peak is None else f"{peak / 1e9:.3g}",
    )
    return tuple(map(Cell, texts))


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if len(numbers) == len(values) else None
