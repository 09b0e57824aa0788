"""Training curves from the TensorBoard event files of runs, or from their rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from lgx.core.rows import Row
from lgx.results.merging import Place

TAGS = ("val/acc", "val/loss", "train/loss")
# Lightning adds a suffix where a value is logged both per step and per epoch.
_SUFFIXES = ("", "_epoch", "_step")


@dataclass(frozen=True)
class Curve:
    """One scalar over the course of a run.

    Attributes:
        steps: Global steps, or epochs, strictly increasing.
        values: Value at each step.
        unit: What ``steps`` counts.
    """

    steps: tuple[int, ...]
    values: tuple[float, ...]
    unit: Literal["step", "epoch"] = "step"


Seeds = dict[int, dict[str, Curve]]
"""Curves by seed, then by tag."""


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
    """Mean and range over seeds, at the steps that all seeds have reached.

    A curve with more points is first averaged in equal pieces. Between recorded steps a curve is a straight line.

    Args:
        curves: One curve per seed, none of them empty.
        points: Largest number of points of a curve.

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
    """Read every recorded point of a run's scalars.

    Where a run was resumed, the point written last counts. A damaged file is read up to the damage.

    Returns:
        The recorded curves by tag.
    """
    if not any(Path(folder).glob("events.out.tfevents*")):
        return {}
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

    # Size 0 keeps every point; by default the accumulator keeps a random sample.
    accumulator = EventAccumulator(str(folder), size_guidance={SCALARS: 0})
    try:
        accumulator.Reload()
    except Exception:  # a damaged record may raise anything; the points before it have been read
        pass
    recorded = set(accumulator.Tags()["scalars"])
    curves = {}
    for tag in tags:
        name = next((tag + suffix for suffix in _SUFFIXES if tag + suffix in recorded), None)
        if name is not None:
            events = sorted(accumulator.Scalars(name), key=lambda event: event.wall_time)
            curves[tag] = _curve({event.step: event.value for event in events})
    return curves


def curves_of_runs(
    rows: Iterable[Row], folders: Mapping[str, Path], metric: str, split: str
) -> dict[Place, dict[str, Seeds]]:
    """Curves of the runs that trained one descendant; of several runs with one seed, the longest curve.

    Curves are over steps and come from event files; curves of the training split are over epochs and come from rows.

    Args:
        rows: Rows of the runs, of any metric and split.
        folders: Folder of each run by the run's name.
        metric: Metric to read; both splits' losses are read too.
        split: Split that is compared.

    Returns:
        Curves by task and architecture, then by method, seed and tag.
    """
    tags = tuple(dict.fromkeys((f"val/{metric}", "val/loss", "train/loss")))
    rows_of: dict[str, list[Row]] = {}
    for row in rows:
        rows_of.setdefault(row.run, []).append(row)
    found: dict[Place, dict[str, Seeds]] = {}
    for run, rows_of_run in sorted(rows_of.items()):
        if len({(row.task, row.architecture, row.method, row.seed) for row in rows_of_run}) > 1:
            continue
        over_epochs = {row.epochs: row.value for row in rows_of_run if (row.metric, row.split) == (metric, "train")}
        of_rows = {f"train/{metric}": _curve(over_epochs, "epoch")}
        curves = of_rows if split == "train" else read_curves(folders[run], tags)
        place = rows_of_run[0].task, rows_of_run[0].architecture
        for tag, curve in curves.items():
            if len(curve.steps) < 2:  # a point is no curve
                continue
            seeds = found.setdefault(place, {}).setdefault(rows_of_run[0].method, {})
            known = seeds.setdefault(rows_of_run[0].seed, {}).get(tag)
            if known is None or known.steps[-1] < curve.steps[-1]:
                seeds[rows_of_run[0].seed][tag] = curve
    return found


def _curve(points: Mapping[int, float], unit: Literal["step", "epoch"] = "step") -> Curve:
    steps = sorted(points)
    return Curve(tuple(steps), tuple(points[step] for step in steps), unit)
