"""What a whole sweep takes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lgx.planning.plan import make_plan
from lgx.runs.sweeps import RunSpec, load_sweep, option_arguments

# Options that say where a start comes from, or what it is called, and not how long its training takes.
_OF_NO_WEIGHT = ("model.initializer", "model.start", "model.label", "model.head", "data.root")


@dataclass(frozen=True)
class SweepHours:
    """GPU hours of a sweep's training, without validation and tests.

    Attributes:
        hours: Of all runs together.
        runs: Runs that train.
    """

    hours: float
    runs: int


def sweep_hours(file: str | Path, tflops: float, mfu: float, samples: str | None = None) -> SweepHours:
    """Plan every run of a sweep that trains; runs that differ in their start alone are planned once.

    Args:
        file: The sweep file.
        tflops: What a GPU does at best, in TFLOP/s of the runs' precision.
        mfu: Share of it that training reaches.
        samples: See :class:`~lgx.planning.options.Options`.

    Raises:
        UserError: If the file, or a run of it, is wrong.
    """
    known: dict[tuple[str, ...], float] = {}
    speed_of = ["--gpus=1", f"--tflops={tflops}", f"--mfu={mfu}", *([f"--samples={samples}"] if samples else [])]
    total, specs = 0.0, [spec for spec in load_sweep(file).runs if spec.command == "fit"]
    for spec in specs:
        key = (spec.config, *_weighty(spec))
        if key not in known:
            speed = make_plan(["--config", spec.config, *_weighty(spec), *speed_of]).speed
            assert speed is not None, "tflops is given"
            known[key] = speed.gpu_hours
        total += known[key]
    return SweepHours(total, len(specs))


def _weighty(spec: RunSpec) -> Iterator[str]:
    return (
        argument
        for key, value in spec.options.items()
        if not key.startswith(_OF_NO_WEIGHT)
        for argument in option_arguments({key: value})
    )
