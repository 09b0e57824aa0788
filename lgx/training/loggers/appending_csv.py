"""Continue the file of a CSVLogger, which Lightning deletes when a run starts again."""

import csv
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.loggers.csv_logs import ExperimentWriter

from lgx.core.files import atomic_path


class AppendingWriter(ExperimentWriter):
    """Lightning's writer of ``metrics.csv``, which keeps the rows and columns of the file.

    Args:
        folder: Folder of the file.
    """

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        path = Path(self.metrics_file_path)
        if path.is_file():
            with path.open(newline="", encoding="utf-8") as file:
                self.metrics_keys = next(csv.reader(file), [])

    def _check_log_dir_exists(self) -> None:
        """Delete nothing."""


def append_rows(logger: CSVLogger) -> None:
    """Let a logger continue its file.

    Args:
        logger: The logger, before it logs.
    """
    logger._experiment = AppendingWriter(logger.log_dir)


def drop_rows(logger: CSVLogger, step: int) -> None:
    """Remove the rows that a run writes again when it resumes.

    Tests at the step stay: the run does not repeat them.

    Args:
        logger: The logger.
        step: Number of steps that are done.
    """
    path = Path(logger.experiment.metrics_file_path)
    if not path.is_file():
        return
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        names, rows = list(reader.fieldnames or []), list(reader)
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(row for row in rows if _stays(row, step))


def _stays(row: dict[str | Any, str | Any], step: int) -> bool:
    """Whether a row is kept. The last row of a killed process may lack columns."""
    if None in row.values() or not str(row.get("step", "")).isdecimal():
        return False
    measured = {name for name, value in row.items() if value and name not in ("step", "epoch")}
    return int(row["step"]) < step or all("test/" in name for name in measured)
