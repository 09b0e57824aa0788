"""The record of a run, read from its folder: results and amount of training."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lgx.core.rows import Row, read_rows
from lgx.errors import UserError
from lgx.host.safety import read_yaml
from lgx.results.merging import RESULTS, read_summary

CONFIG = "config.yaml"


@dataclass(frozen=True)
class Work:
    """An amount of training, as runs have counted it.

    Attributes:
        flops: Floating-point operations; None where a run has not counted them.
        seconds: Measured wall time; None where it was not measured.
    """

    flops: float | None = 0.0
    seconds: float | None = 0.0

    def shared(self, number: int) -> "Work":
        """The share of one of several descendants."""
        return Work(*(None if amount is None else amount / number for amount in (self.flops, self.seconds)))

    def __add__(self, other: "Work") -> "Work":
        pairs = ((self.flops, other.flops), (self.seconds, other.seconds))
        return Work(*(None if a is None or b is None else a + b for a, b in pairs))


@dataclass(frozen=True)
class RunRecord:
    """A run's folder; its files are read when they are needed.

    Attributes:
        folder: The folder.
        rows: The run's results.
    """

    folder: Path
    rows: tuple[Row, ...] = ()

    @classmethod
    def at(cls, folder: Path) -> "RunRecord":
        """The run in a folder, with its results if it has any."""
        results = folder / RESULTS
        return cls(folder, tuple(read_rows(results)) if results.is_file() else ())

    @property
    def exists(self) -> bool:
        """Whether the folder has a configuration."""
        return (self.folder / CONFIG).is_file()

    @property
    def initializer(self) -> dict[str, Any]:
        """The configured start of its network: ``class_path`` and ``init_args``; empty for a random start."""
        path = self.folder / CONFIG
        try:
            return dict(read_yaml(path, "train it again")["model"].get("init_args", {}).get("initializer") or {})
        except (UserError, TypeError, KeyError, ValueError, AttributeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise UserError(f"{path}: not the configuration of a run ({reason}); train it again") from error

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Its summary; empty before its end."""
        return read_summary(self.folder)

    @property
    def flops(self) -> float | None:
        """FLOPs of its training and of the start of its network; None where it has not counted them."""
        counted = self.summary.get("flops")
        return None if counted is None else float(counted) + float(self.summary["start_flops"])

    @property
    def work(self) -> Work:
        """Its training, with the start of its network."""
        return Work(self.flops, self.summary.get("seconds"))
