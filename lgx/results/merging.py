"""Collect the rows of many runs, one for each measurement."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lgx.core.rows import Row, read_rows
from lgx.errors import UserError
from lgx.host.outputs import has_mark

RESULTS, MARKDOWN, REPORT = "results.csv", "results.md", "report.html"
"""Files of a comparison; a run writes the first alone."""

TITLE = "Comparison of initializations"
"""Title of a comparison, by which its files in Markdown are known."""

_Measurement = tuple[object, ...]


@dataclass(frozen=True)
class Merged:
    """Rows of all runs, one for each measurement.

    Attributes:
        rows: The newest row of each measurement.
        folders: Folder of each run by the run's name.
        notes: Sentences on measurements of several runs.
        files: The files that hold the rows.
    """

    rows: list[Row]
    folders: dict[str, Path]
    notes: list[str]
    files: tuple[Path, ...] = ()


def find_results(runs: Sequence[str]) -> list[Path]:
    """Find the results files of runs; files that an earlier comparison wrote count only if there are no others.

    Args:
        runs: Folders or files.

    Raises:
        UserError: If a path does not exist or there is no results file at all.
    """
    found: list[Path] = []
    for run in map(Path, runs):
        if not run.exists():
            raise UserError(f"{run}: no such file or folder; give folders of runs or {RESULTS} files")
        if run.is_file() and run.suffix != ".csv":
            raise UserError(f"{run}: not a {RESULTS}; give folders of runs or {RESULTS} files")
        found += [run] if run.is_file() else _results_below(run)
    unique = list({file.resolve(): file for file in found}.values())
    if not unique:
        raise UserError(f"no {RESULTS} in {', '.join(runs)}; a run writes one when it validates or tests")
    return [file for file in unique if not is_comparison(file)] or unique


def _results_below(folder: Path) -> list[Path]:
    """Results files in a folder at any depth, and in folders of runs, their names and experiments that links name.

    What lies deeper below a link is not searched: links also lead to data sets, with millions of files.
    """
    found = []
    for root, folders, files in os.walk(folder):
        found += [Path(root, RESULTS)] if RESULTS in files else []
        links = (link for name in folders if (link := Path(root, name)).is_symlink())
        found += [file for link in links for depth in ("", "*/", "*/*/") for file in link.glob(depth + RESULTS)]
    return sorted(found)


def is_comparison(results: Path) -> bool:
    """Whether a comparison wrote a results file, or another file of its folder."""
    return has_mark(results.parent / MARKDOWN, f"# {TITLE}\n")


def merge(files: Sequence[Path]) -> Merged:
    """Read files and keep the newest row of each method, architecture, task, split, epochs, metric and seed.

    The newest row is the one in the file that was changed last, and within a file the last one.

    Raises:
        UserError: If a file is not a results file.
    """
    newest: dict[_Measurement, tuple[Row, Path]] = {}
    replaced: dict[_Measurement, tuple[Row, Path]] = {}
    folders: dict[str, Path] = {}
    for file in sorted(files, key=lambda file: (file.stat().st_mtime_ns, str(file))):
        rows = read_rows(file)
        is_of_one_run = len({row.run for row in rows}) == 1
        for row in rows:
            what = row.key[:-1]
            if what in newest and _is_another(newest[what], (row, file)):
                replaced[what] = newest[what]
            newest[what] = row, file
            # The run's own name may be the path of a folder that was moved since.
            folders[row.run] = file.parent if is_of_one_run else Path(row.run)
    return Merged([row for row, _ in newest.values()], folders, _notes(newest, replaced), tuple(files))


def _is_another(old: tuple[Row, Path], new: tuple[Row, Path]) -> bool:
    """Whether two rows of one measurement are of different runs, whose names may be the same in two projects."""
    return old[0].run != new[0].run or (old[1] != new[1] and old[0].value != new[0].value)


def _notes(newest: dict[_Measurement, tuple[Row, Path]], replaced: dict[_Measurement, tuple[Row, Path]]) -> list[str]:
    if not replaced:
        return []
    what, (loser, file) = next(iter(replaced.items()))
    winner, newest_file = newest[what]
    names: Iterable[object] = (winner.run, loser.run) if winner.run != loser.run else (newest_file, file)
    shown, hidden = names
    return [
        f"{len(replaced)} value(s) were measured by several runs, the newest is shown: for example {loser.method}, "
        f"{loser.architecture}, {loser.task}, seed {loser.seed} from {shown}, not {hidden}."
    ]
