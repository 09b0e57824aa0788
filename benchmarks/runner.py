"""Run measurements one after another, print a line for each, and keep the rows in a file."""

import csv
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.steps import device
from lgx.core.provenance import commit, hardware
from lgx.host.failures import is_full_memory

Rows = list[dict[str, Any]]
"""One measurement each: ``what``, ``seconds``, ``ratio``, ``peak_mb``, further values of it, and the setting."""


@dataclass(frozen=True)
class Measurement:
    """One measurement.

    Attributes:
        setting: What distinguishes it: suite, size, batch, precision, decoder, compile.
        measure: Returns its rows.
    """

    setting: dict[str, Any]
    measure: Callable[[], Rows]


def run(measurements: Iterable[Measurement], path: str | None = None, minutes: float | None = None) -> Rows:
    """Measure until the time is over; what does not fit into the memory of the GPU is noted.

    Args:
        measurements: What to measure, in order.
        path: CSV file for the rows, which is written after each measurement.
        minutes: No measurement begins after so many minutes; the others are noted as not measured.

    Returns:
        The rows with the setting, the device, and versions; of what was not measured, ``failure``.
    """
    started = time.monotonic()
    common = {"device": hardware(on_gpu=device() == "cuda"), "torch": torch.__version__, "commit": commit()}
    rows: Rows = []
    for entry in measurements:
        if minutes is not None and time.monotonic() - started > 60 * minutes:
            found: Rows = [{"failure": f"not measured within {minutes:g} minutes"}]
        else:
            found = _measured(entry)
        for row in found:
            print(_line(entry.setting | row), flush=True)
        rows += [entry.setting | row | common for row in found]
        if path:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            with open(path, "w", encoding="utf-8", newline="") as file:
                table = csv.DictWriter(file, [*dict.fromkeys(key for row in rows for key in row)], lineterminator="\n")
                table.writeheader()
                table.writerows({key: _short(value) for key, value in row.items()} for row in rows)
    return rows


def _measured(entry: Measurement) -> Rows:
    try:
        return entry.measure()
    except Exception as error:  # the other measurements are not lost
        traceback.print_exc()
        full = isinstance(error, RuntimeError) and is_full_memory(error)
        return [{"failure": "the memory of the GPU is too small" if full else " ".join(str(error).split())[:200]}]
    finally:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _line(row: dict[str, Any]) -> str:
    return "  ".join(f"{key} {_short(value)}" for key, value in row.items())


def _short(value: object) -> object:
    return f"{value:.4g}" if isinstance(value, float) else value
