"""Merge the rows of runs: one row per measurement, at start and end of training."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lgx.core.rows import Row, read_rows
from lgx.errors import UserError
from lgx.host.files import walk
from lgx.host.safety import read_json

RESULTS, REPORT = "results.csv", "report.html"
"""The rows of a run, and its page; a comparison writes a page alone."""

Place = tuple[str, str]
"""Task and network (architecture, or size in an arena) on which methods are compared."""
_Measurement = tuple[object, ...]
_Run = tuple[str, str, str, str, int]


@dataclass(frozen=True)
class Merged:
    """Rows of all runs, one for each measurement of a run.

    Attributes:
        rows: The rows.
        folders: Folder of each run by the run's name.
        notes: Sentences on runs of one name.
    """

    rows: list[Row]
    folders: dict[str, Path]
    notes: list[str]


def read_summary(folder: Path) -> dict[str, Any]:
    """Summary of the finished run in a folder; empty before the end, and without the folder."""
    file = folder / "summary.json"
    try:
        return dict(read_json(file, "evaluate the run again")) if file.is_file() else {}
    except (UserError, TypeError, ValueError):
        return {}


def find_results(runs: Sequence[str]) -> list[Path]:
    """Find the results files of runs, each once."""
    files: list[Path] = []
    for run in map(Path, runs):
        if not run.exists():
            raise UserError(f"{run}: no such file or folder; give folders of runs or {RESULTS} files")
        if run.is_file() and run.suffix != ".csv":
            raise UserError(f"{run}: not a {RESULTS}; give folders of runs or {RESULTS} files")
        files += [run] if run.is_file() else _results_below(run)
    unique = list({file.resolve(): file for file in files}.values())
    if not unique:
        raise UserError(f"no {RESULTS} in {', '.join(runs)}; a run writes one when it validates or tests")
    return unique


def _results_below(folder: Path) -> list[Path]:
    """Results files in a folder at any depth, also behind links."""
    files = []
    for place, inner, names in walk(folder):
        inner[:] = [name for name in inner if not name.startswith(".")]  # a run that is being deleted
        files += [Path(place, RESULTS)] if RESULTS in names else []
    return files


def merge(files: Sequence[Path], split: str = "test") -> Merged:
    """Read files. Of one run's rows with the same key, those in the file that was changed last are kept.

    Two folders may hold runs of one name, for example of two projects. If they differ, each is named by its folder.

    Args:
        files: The files.
        split: Split that is compared: all runs must have measured the same examples of a task.
    """
    newest: dict[tuple[Path, _Measurement], tuple[Row, Path]] = {}
    replaced: list[tuple[Path, Path]] = []
    for file in sorted(files, key=lambda file: (file.stat().st_mtime_ns, str(file))):
        rows = read_rows(file)
        folders_here = _folders_in(file, {row.run for row in rows})
        for row in rows:
            key = folders_here[row.run], row.key
            old, place = newest.get(key, (row, file))
            if place != file and old.value != row.value:
                replaced.append((file, place))
            newest[key] = row, file
    ambiguous = _ambiguous_names(row for row, _ in newest.values())
    merged: dict[_Measurement, Row] = {}
    folders: dict[str, Path] = {}
    for (folder, _), (row, _) in newest.items():
        named = replace(row, run=str(folder)) if row.run in ambiguous else row
        merged[named.key] = named
        folders[named.run] = folder
    _check_sets([row for row in merged.values() if row.split == split], folders)
    notes = [
        f"{len(replaced)} value(s) of one run are in several files, the newest is shown: for example from {shown}, not "
        f"{hidden}."
        for shown, hidden in replaced[:1]
    ]
    return Merged(list(merged.values()), folders, notes)


def _folders_in(file: Path, runs: Collection[str]) -> dict[str, Path]:
    """Folder of each run in a file of rows. A run's own file lies in its folder, which may have been moved."""
    if file.name == RESULTS and len(runs) == 1:
        return dict.fromkeys(runs, file.parent.resolve())
    places = (*file.resolve().parents, Path.cwd())
    return {run: next((above / run for above in places if (above / run).is_dir()), Path(run)) for run in runs}


def _ambiguous_names(rows: Iterable[Row]) -> set[str]:
    """Names of runs in several folders with different values; a copy of a run has the same values."""
    values: dict[_Measurement, set[str]] = {}
    for row in rows:
        values.setdefault(row.key, set()).add(repr(row.value))
    return {str(key[-1]) for key, several in values.items() if len(several) > 1}


def names_of_runs(rows: Iterable[Row]) -> dict[tuple[str, str], str]:
    """(method, run) -> the method with the run's name, for runs of one method that have measured the same differently.

    Args:
        rows: The rows that are compared, of one split.
    """
    values: dict[_Measurement, dict[Path, float]] = {}
    for row in rows:
        values.setdefault(row.key[:-1], {})[_without_seed(row.run)] = row.value
    apart = {(key[0], place) for key, of_runs in values.items() if len({*of_runs.values()}) > 1 for place in of_runs}
    names = _short_paths({place for _, place in apart})
    pairs = {(row.method, row.run): _without_seed(row.run) for row in rows}
    return {pair: f"{pair[0]} ({names[place]})" for pair, place in pairs.items() if (pair[0], place) in apart}


def _without_seed(run: str) -> Path:
    """Folder of all seeds of a run."""
    return Path(run).parent if re.fullmatch(r"seed\d+", Path(run).name) else Path(run)


def _short_paths(paths: Collection[Path]) -> dict[Path, str]:
    """As many last parts of each path as tell them apart, at least experiment and name: ``sws/first``."""
    count = 2
    while len({path.parts[-count:] for path in paths}) < len(paths):
        count += 1
    return {path: "/".join(path.parts[-count:]) for path in paths}


def last_epochs(rows: Sequence[Row], also: Collection[int] = ()) -> tuple[list[Row], list[str]]:
    """Keep the rows of epoch 0 and of each run's last epoch.

    Args:
        rows: Rows of one metric and one split.
        also: Other epochs to keep.

    Returns:
        The rows that are kept, and a note on the others.
    """
    last = _last(rows)
    kept = [row for row in rows if row.epochs in (0, *also, last[_run(row)])]
    left_out = len(rows) - len(kept)
    return kept, [f"{left_out} value(s) from the middle of training are not in the tables."] if left_out else []


def count_whole_runs(
    rows: Sequence[Row], of_runs: Iterable[Row], also: Collection[int] = ()
) -> tuple[list[Row], list[str]]:
    """Give tests of earlier checkpoints the epochs of their run.

    The best epoch differs between seeds, so tests of best checkpoints would not be averaged over seeds otherwise.

    Args:
        rows: The rows that :func:`last_epochs` keeps.
        of_runs: All rows of the runs, of any split and metric, which determine the lengths of the runs.
        also: Epochs that are not changed.

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


def _check_sets(rows: Iterable[Row], folders: Mapping[str, Path]) -> None:
    """Refuse rows of two data sets with the same name.

    The number of examples and the classes distinguish two sets.
    """
    summaries = {run: read_summary(folder) for run, folder in folders.items()}
    seen: dict[tuple[str, str], tuple[object, str]] = {}
    for row in rows:
        facts: dict[str, object] = {} if row.split == "train" else {f"{row.split} examples": row.n}
        names = (summaries[row.run].get("class_fingerprints") or {}).get(row.task)
        if names:
            facts["classes"] = names
        for fact, value in facts.items():
            first, run = seen.setdefault((row.task, fact), (value, row.run))
            if first != value:
                raise UserError(
                    f"{row.task} has different {fact} in {run} ({first}) and in {row.run} ({value}), so two sets have "
                    "this name; give folders of one set, or train on one of them with another --data.name"
                )


def _run(row: Row) -> _Run:
    return row.run, row.method, row.architecture, row.task, row.seed


def _last(rows: Iterable[Row]) -> dict[_Run, int]:
    last: dict[_Run, int] = {}
    for row in rows:
        last[_run(row)] = max(row.epochs, last.get(_run(row), 0))
    return last
