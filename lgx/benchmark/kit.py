"""Everything that is measured on a machine with a GPU, the most important first, within a limit of time."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from lgx.architectures import ViTArchitecture
from lgx.benchmark.fit_steps import measure_fit_steps
from lgx.benchmark.hypernet_steps import LARGEST, measure_hypernet_steps
from lgx.benchmark.loaders import measure_loaders
from lgx.benchmark.report import Rows
from lgx.benchmark.shared_layers import measure_shared_layers
from lgx.benchmark.training_step import device, matrix_products
from lgx.core.provenance import commit, hardware
from lgx.host.failures import is_full_memory
from lgx.hypernet import HypernetConfig

_FAILED = {"what": "", "seconds": None, "ratio": None, "peak_mb": None}


@dataclass(frozen=True)
class Kit:
    """What is measured.

    Attributes:
        sizes: The ViTs, by the names of their sizes.
        batches: Images of a step, the most important first.
        precisions: Keys of :data:`~lgx.benchmark.training_step.PRECISIONS`.
        loader_pixels: Height and width of the images of the loaders, whose batches are the first of ``batches``.
        repeats: Timed rounds.
        configs: Configurations of ``lgx fit`` whose steps are compared with a bare loop.
    """

    sizes: dict[str, ViTArchitecture]
    batches: Sequence[int]
    precisions: Sequence[str]
    loader_pixels: int
    repeats: int
    configs: Sequence[str] = ()


@dataclass(frozen=True)
class Entry:
    """One measurement.

    Attributes:
        setting: What distinguishes it: suite, size, batch, precision, decoder, compile.
        measure: Returns its rows.
    """

    setting: dict[str, Any]
    measure: Callable[[], Rows]


def entries(kit: Kit) -> Iterator[Entry]:
    """The measurements of a kit, in order."""
    for config in kit.configs:
        yield _fit(kit, config)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for workers in (0, min(cores, 16)):
        yield _loaders(kit, workers)
    for batch in kit.batches:
        for precision in kit.precisions:
            for size in kit.sizes:
                yield _hypernet(kit, size, batch, precision, "low_rank")
    for size in list(kit.sizes)[:2]:
        for precision in kit.precisions:
            yield _hypernet(kit, size, kit.batches[0], precision, "conv")
    for size in kit.sizes:
        yield _hypernet(kit, size, kit.batches[0], "bf16", "low_rank", compiled=True)
        yield _shared(kit, size)


def run(kit: Kit, minutes: float, report: Callable[[Rows], None]) -> Rows:
    """Measure a kit until the time is over; what does not fit into the memory of the GPU is noted.

    Args:
        kit: What to measure.
        minutes: No measurement begins after so many minutes; the others are noted as not measured.
        report: Called with all rows after each measurement.

    Returns:
        Rows with ``what``, ``seconds``, ``ratio``, ``peak_mb`` and the setting; of what was not measured, ``failure``.
    """
    started = time.monotonic()
    common = {"device": hardware(on_gpu=device() == "cuda"), "torch": torch.__version__, "commit": commit()}
    rows: Rows = []
    for entry in entries(kit):
        if time.monotonic() - started > 60 * minutes:
            rows.append(entry.setting | _FAILED | {"failure": f"not measured within {minutes:g} minutes"} | common)
            continue
        try:
            rows += [{**entry.setting, **row, **common} for row in entry.measure()]
        except RuntimeError as error:
            if not is_full_memory(error):
                raise
            rows.append(entry.setting | _FAILED | {"failure": "the memory of the GPU is too small"} | common)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        report(rows)
    return rows


def _hypernet(
    kit: Kit, size: str, batch: int, precision: str, decoder: Literal["low_rank", "conv"], compiled: bool = False
) -> Entry:
    config = HypernetConfig(decoder=decoder, max_shape=LARGEST[decoder])

    def measure() -> Rows:
        with matrix_products(precision):
            return measure_hypernet_steps(kit.sizes[size], config, batch, 1, precision, kit.repeats, compiled)

    setting = {"suite": "hypernet", "size": size, "batch": batch, "precision": precision}
    return Entry({**setting, "decoder": decoder, "compile": compiled}, measure)


def _shared(kit: Kit, size: str) -> Entry:
    batch = kit.batches[0]
    setting = {"suite": "shared_layers", "size": size, "batch": batch, "precision": "bf16"}
    return Entry(setting, lambda: measure_shared_layers(kit.sizes[size], batch, "bf16", kit.repeats))


def _fit(kit: Kit, config: str) -> Entry:
    setting = {"suite": "fit", "size": Path(config).stem, "config": config}
    return Entry(setting, lambda: measure_fit_steps(config, 20, min(kit.repeats, 3)))


def _loaders(kit: Kit, workers: int) -> Entry:
    pixels, batch = kit.loader_pixels, kit.batches[0]
    setting = {"suite": "data", "size": f"{pixels} px", "batch": batch, "num_workers": workers}
    return Entry(setting, lambda: measure_loaders(pixels, batch, workers, min(kit.repeats, 3)))
