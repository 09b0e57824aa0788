"""Points of accuracy against total compute, from the rows of an arena."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, log
from statistics import fmean

import numpy as np

from lgx.core.rows import Row
from lgx.results.arena.arena_file import Arena
from lgx.results.merging import Place
from lgx.results.metrics import scale_of
from lgx.results.statistics import Summary, summarize

FLOPS = "flops"
"""FLOPs of the descendant's own training and of the computation of its start."""
SECONDS = "seconds"
"""Wall time of the descendant's run, s."""
LEARNING, SHARED = "_sources", "_sources_shared"
"""Suffixes: training of all sources of a start, and the share of one task and size."""
WITHIN = 1.02
"""Amounts of compute with a smaller ratio count as equal: counted and measured FLOPs may differ by as much."""


@dataclass(frozen=True)
class Amount:
    """Cost of a descendant, mean over seeds.

    Attributes:
        own: Training of the descendant, and the computation of its start.
        sources: All training of the sources behind its start.
        shared: The descendant's share: each source's training, divided by the number of tasks × sizes that use it.
    """

    own: float
    sources: float
    shared: float

    @property
    def total(self) -> float:
        """Own cost and the share of sources."""
        return self.own + self.shared


@dataclass(frozen=True)
class Point:
    """A start at one budget.

    Attributes:
        budget: Epochs of training.
        accuracy: Accuracy by seed, in percent.
        flops: Floating-point operations.
        seconds: Seconds of wall time.
        images: Number of test images.
        architecture: Name of the architecture.
        machines: Names of the measuring devices.
    """

    budget: int
    accuracy: Mapping[int, float]
    flops: Amount
    seconds: Amount
    images: int
    architecture: str
    machines: frozenset[str]

    @property
    def summary(self) -> Summary:
        """Accuracy over seeds."""
        return summarize([self.accuracy[seed] for seed in sorted(self.accuracy)])


Curve = Sequence[Point]
"""Points of one start, task and size, by budget."""


def read_points(arena: Arena, rows: Iterable[Row], metric: str = "acc") -> dict[str, dict[Place, Curve]]:
    """Curves by start, then by task and size.

    Args:
        arena: The arena.
        rows: Rows of its runs; runs without the rows of their cost are left out.
        metric: The metric that counts as accuracy.
    """
    runs: dict[tuple[str, Place, int], dict[int, dict[str, Row]]] = {}
    for row in sorted(rows, key=lambda row: row.epochs):  # a run may also have tested its start
        measured = arena.measured_by(row.run)
        if measured is not None and row.split == "test" and isfinite(row.value):
            key = measured.start, (measured.task, measured.size), measured.budget
            runs.setdefault(key, {}).setdefault(measured.seed, {})[row.metric] = row
    found: dict[str, dict[Place, list[Point]]] = {}
    for (start, place, budget), seeds in sorted(runs.items(), key=lambda item: item[0][2]):
        whole = {seed: values for seed, values in seeds.items() if {metric, FLOPS} <= values.keys()}
        if whole:
            found.setdefault(start, {}).setdefault(place, []).append(_point(budget, whole, metric))
    return {start: dict(found[start]) for start in arena.starts if start in found}


def _point(budget: int, seeds: Mapping[int, Mapping[str, Row]], metric: str) -> Point:
    def amount(unit: str) -> Amount:
        return Amount(*(fmean(rows[unit + s].value for rows in seeds.values()) for s in ("", LEARNING, SHARED)))

    first = next(iter(seeds.values()))[metric]
    accuracy = {seed: scale_of(metric) * rows[metric].value for seed, rows in seeds.items()}
    machines = frozenset(rows[metric].hardware for rows in seeds.values())
    return Point(budget, accuracy, amount(FLOPS), amount(SECONDS), first.n, first.architecture, machines)


def at_compute(curve: Curve, flops: float, seed: int) -> float | None:
    """Accuracy of a seed at an amount of total compute, interpolated linearly over its logarithm.

    Returns:
        The accuracy in percent; None outside the measured range.
    """
    measured = [(point.flops.total, point.accuracy[seed]) for point in curve if seed in point.accuracy and point.budget]
    if not measured or not measured[0][0] / WITHIN <= flops <= measured[-1][0] * WITHIN:
        return None
    compute, accuracy = zip(*measured, strict=True)
    return float(np.interp(log(flops / compute[0]), [log(one / compute[0]) for one in compute], accuracy))


def own_compute_to(curve: Curve, accuracy: float) -> tuple[float, bool] | None:
    """Own FLOPs, without sources, at which the mean over seeds reaches an accuracy.

    Returns:
        The FLOPs, and whether the smallest budget already reaches it (then fewer may suffice); None if it is not
        reached.
    """
    trained = [(point.flops.own, fmean(point.accuracy.values())) for point in curve if point.budget]
    if trained and trained[0][1] >= accuracy:
        return trained[0][0], True
    for (low, before), (high, after) in pairwise(trained):
        if after >= accuracy:
            return low * (high / low) ** ((accuracy - before) / (after - before)), False
    return None
