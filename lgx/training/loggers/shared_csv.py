"""The file of a CSVLogger: a resumed run continues it, and a test may add to it while the run trains."""

import csv
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.loggers.csv_logs import ExperimentWriter

from lgx.host.files import atomic_path
from lgx.host.locks import changing


class SharedWriter(ExperimentWriter):
    """Lightning's writer of ``metrics.csv``, which keeps the rows and columns that the file has.

    Lightning's own deletes a file that exists. It also writes the columns that it knows itself, so that the values of
    two processes would be mixed up.
    """

    def save(self) -> None:
        """Add the rows to the file; one process at a time."""
        with changing(Path(self.log_dir)):
            self.metrics_keys = _columns(Path(self.metrics_file_path))
            super().save()

    def _rewrite_with_new_header(self, fieldnames: list[str]) -> None:
        path = Path(self.metrics_file_path)
        _write(path, fieldnames, _read(path)[1])

    def _check_log_dir_exists(self) -> None:
        """Delete nothing."""


def share_file(logger: CSVLogger) -> None:
    """Let a logger continue its file, beside other processes.

    Args:
        logger: The logger, before it logs.
    """
    logger._experiment = SharedWriter(logger.log_dir)


def metrics_file(logger: CSVLogger) -> Path:
    """The file of a logger, which need not exist."""
    return Path(logger.log_dir, ExperimentWriter.NAME_METRICS_FILE)


def drop_rows(logger: CSVLogger, step: int) -> None:
    """Remove the rows that a run writes again when it resumes.

    Tests at the step stay: the run does not repeat them.

    Args:
        logger: The logger.
        step: Number of steps that are done.
    """
    path = metrics_file(logger)
    if not path.is_file():
        return
    with changing(path.parent):
        names, rows = _read(path)
        _write(path, names, [row for row in rows if _stays(row, step)])


def _columns(path: Path) -> list[str]:
    """Columns of a file; none of a file that does not exist. The rows are not read: a long run has many."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return next(csv.reader(file), [])


def _read(path: Path) -> tuple[list[str], list[dict[str | Any, str | Any]]]:
    """Columns and rows; none of a file that does not exist."""
    if not path.is_file():
        return [], []
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        return list(reader.fieldnames or []), list(reader)


def _write(path: Path, names: list[str], rows: list[dict[str | Any, str | Any]]) -> None:
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)


def _stays(row: dict[str | Any, str | Any], step: int) -> bool:
    """Whether a row is kept. The last row of a killed process may lack columns."""
    if None in row.values() or not str(row.get("step", "")).isdecimal():
        return False
    measured = {name for name, value in row.items() if value and name not in ("step", "epoch")}
    return int(row["step"]) < step or all("test/" in name for name in measured)
