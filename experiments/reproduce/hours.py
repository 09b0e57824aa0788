"""GPU hours of a sweep's training, from the plans of its runs."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lgx.host.safety import read_yaml
from lgx.planning import make_plan
from lgx.runs.sweeps import load_sweep, option_arguments
from lgx.training.same_run import flat_options

_WITHOUT_COST = ("model.label", "model.head", "data.root")
"""Names, which do not change the time of training."""
_STARTS = ("model.start", "model.task_embeddings")
"""Options that name files which other runs write; without them a step takes the same time."""


@dataclass(frozen=True)
class SweepHours:
    """GPU hours of a sweep's training, without validation and tests.

    Attributes:
        hours: GPU hours of all runs together.
        runs: Number of runs that train.
    """

    hours: float
    runs: int


def sweep_hours(file: str | Path, tflops: float, mfu: float, samples: str | None = None) -> SweepHours:
    """Plan every run of a sweep that trains; runs that differ only in their start are planned once.

    Args:
        file: The sweep file.
        tflops: Peak TFLOP/s of a GPU at the runs' precision.
        mfu: Share of it that training reaches.
        samples: See :class:`~lgx.planning.configured.PlanOptions`.
    """
    known: dict[tuple[str, ...], float] = {}
    speed_of = ["--gpus=1", f"--tflops={tflops}", f"--mfu={mfu}", *([f"--samples={samples}"] if samples else [])]
    total, specs = 0.0, [spec for spec in load_sweep(file).runs if spec.command == "fit"]
    for spec in specs:
        key = ("--config", spec.config, *costly_options(spec.config, spec.options))
        if key not in known:
            hours = make_plan([*key, *speed_of]).hours  # on one GPU
            assert hours is not None, "tflops is given"
            known[key] = hours
        total += known[key]
    return SweepHours(total, len(specs))


def costly_options(config: str, options: Mapping[str, Any]) -> Iterator[str]:
    """The options of a run that change its costs, as arguments; files that other runs write are not needed.

    Args:
        config: The run's configuration file.
        options: What it changes.
    """
    written = {**flat_options(read_yaml(Path(config), "give a configuration file")), **options}
    random = {name: "null" for name in _STARTS if str(written.get(name)).endswith(".safetensors")}
    if "model.initializer" in written and written.get("model.arch") is not None:  # otherwise the start may give it
        random["model.initializer"] = "RandomStart"
    free = (*_WITHOUT_COST, *random)
    yield from (
        text for text in option_arguments(options) if not any(re.match(rf"--{name}[.=]", text) for name in free)
    )
    yield from (f"--{name}={value}" for name, value in random.items())
