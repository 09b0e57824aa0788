"""Training curves from a run's TensorBoard event files, or from its rows."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from lgx.core.rows import Row

TAGS = ("val/acc", "val/loss", "train/loss")
_EVENT_FILES = "events.out.tfevents*"
# Lightning adds a suffix where a value is logged both per step and per epoch.
_SUFFIXES = ("", "_epoch", "_step")


@dataclass(frozen=True)
class Curve:
    """One scalar over the course of a run.

    Attributes:
        steps: Global steps, or epochs, strictly rising.
        values: Value at each step.
        unit: What ``steps`` counts.
    """

    steps: tuple[int, ...]
    values: tuple[float, ...]
    unit: Literal["step", "epoch"] = "step"


@dataclass(frozen=True)
class Band:
    """Curves of several seeds on common steps.

    Attributes:
        steps: Global steps.
        mean: Mean over seeds at each step.
        low: Smallest value over seeds.
        high: Largest value over seeds.
        n: Number of seeds.
    """

    steps: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    n: int


def over_seeds(curves: Sequence[Curve], points: int = 300) -> Band | None:
    """Mean and range over seeds, over the steps that all seeds have reached.

    Longer curves are averaged in equal pieces first; between recorded steps a curve is a straight line.

    Args:
        curves: One curve per seed, none of them empty.
        points: Most points that are kept of a curve.

    Returns:
        The band; None if the curves have no step range in common.
    """
    pieces = [_thin(curve, points) for curve in curves]
    first, last = max(steps[0] for steps, _ in pieces), min(steps[-1] for steps, _ in pieces)
    if first > last:
        return None
    union = np.unique(np.concatenate([steps for steps, _ in pieces]))
    grid = union[(union >= first) & (union <= last)]
    values = np.stack([np.interp(grid, steps, recorded) for steps, recorded in pieces])
    columns = (grid, values.mean(axis=0), values.min(axis=0), values.max(axis=0))
    steps, mean, low, high = (tuple(float(x) for x in column) for column in columns)
    return Band(steps, mean, low, high, len(curves))


def _thin(curve: Curve, points: int) -> tuple[np.ndarray, np.ndarray]:
    steps, values = np.asarray(curve.steps, dtype=float), np.asarray(curve.values, dtype=float)
    if len(steps) <= points:
        return steps, values
    edges = np.arange(0, len(steps), -(-len(steps) // points))
    counts = np.diff([*edges, len(steps)])
    return np.add.reduceat(steps, edges) / counts, np.add.reduceat(values, edges) / counts


def read_curves(folder: str | Path, tags: Sequence[str] = TAGS) -> Mapping[str, Curve]:
    """Read scalars of a run, every recorded point of them.

    Subfolders are read too, unless they are runs of their own (hold a ``results.csv``). Where a run was resumed, the
    point written last counts. Of a file that ends within a record, what precedes the damage is read.

    Args:
        folder: Folder of the run.
        tags: Names of the scalars.

    Returns:
        The curves by tag; those that the run has not recorded are left out.
    """
    points: dict[str, dict[int, tuple[float, float]]] = {}
    for directory in _event_folders(Path(folder)):
        for tag, found in _read_folder(directory, tags).items():
            known = points.setdefault(tag, {})
            for step, (time, value) in found.items():
                if step not in known or known[step][0] <= time:
                    known[step] = (time, value)
    return {tag: _curve(points[tag]) for tag in tags if tag in points}


def epoch_curve(rows: Iterable[Row]) -> Curve:
    """The values of one metric, split and run over the epochs."""
    values = {row.epochs: row.value for row in rows}
    return Curve(tuple(sorted(values)), tuple(values[epochs] for epochs in sorted(values)), "epoch")


def _curve(points: Mapping[int, tuple[float, float]]) -> Curve:
    steps = sorted(points)
    return Curve(tuple(steps), tuple(points[step][1] for step in steps))


def _event_folders(folder: Path) -> list[Path]:
    found = []
    for root, directories, _ in os.walk(folder):
        here = Path(root)
        directories[:] = sorted(name for name in directories if not (here / name / "results.csv").exists())
        if any(here.glob(_EVENT_FILES)):
            found.append(here)
    return found


def _read_folder(folder: Path, tags: Sequence[str]) -> dict[str, dict[int, tuple[float, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

    # Size 0 keeps every point; the default keeps a random sample.
    accumulator = EventAccumulator(str(folder), size_guidance={SCALARS: 0})
    try:
        accumulator.Reload()
    except Exception:  # whatever a damaged record raises, the points before it have been read
        pass
    recorded = set(accumulator.Tags()["scalars"])
    curves = {}
    for tag in tags:
        name = next((tag + suffix for suffix in _SUFFIXES if tag + suffix in recorded), None)
        if name is not None:
            curves[tag] = {event.step: (event.wall_time, event.value) for event in accumulator.Scalars(name)}
    return curves
