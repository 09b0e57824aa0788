"""Methods at equal compute: the training of a descendant, its start, and its share of the training of all sources."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite, log
from statistics import fmean

import numpy as np

from lgx.core.rows import Row
from lgx.methods import registry
from lgx.results.architecture_names import short_names
from lgx.results.merging import Place
from lgx.results.metrics import scale_of
from lgx.results.report import EMPTY_CELL, Cell, Section, Table
from lgx.results.statistics import Difference, Summary, paired_difference, summarize
from lgx.results.tables import state

FLOPS, SECONDS = "flops", "seconds"
"""Metrics of the descendant's own training and of the computation of its start: FLOPs, and wall time of its run."""
LEARNING, SHARED = "_sources", "_sources_shared"
"""Suffixes: training of all sources of a start, and the share of one task and size."""
WITHIN = 1.02
"""Amounts of compute with a smaller ratio count as equal: counted and measured FLOPs may differ by as much."""


@dataclass(frozen=True)
class Point:
    """A method on one task and network after some epochs.

    Attributes:
        epochs: Epochs of training.
        accuracy: The metric by seed, as shown (shares in percent).
        flops: All compute: the descendant's, and its share of sources; mean over seeds.
        shared: The share of sources.
    """

    epochs: int
    accuracy: Mapping[int, float]
    flops: float
    shared: float

    @cached_property
    def summary(self) -> Summary:
        """The metric over seeds."""
        return summarize([self.accuracy[seed] for seed in sorted(self.accuracy)])


Curves = Mapping[str, Mapping[Place, Sequence[Point]]]
"""Points by method, then by task and network, in the order of epochs."""


def read_curves(rows: Iterable[Row], metric: str) -> Curves:
    """Curves of the runs whose tests have rows of cost.

    Args:
        rows: Rows of any metrics.
        metric: The metric that is compared.
    """
    values: dict[tuple[str, Place, int], dict[int, dict[str, float]]] = {}
    for row in rows:
        if row.split == "test" and isfinite(row.value):
            key = row.method, (row.task, row.architecture), row.epochs
            values.setdefault(key, {}).setdefault(row.seed, {})[row.metric] = row.value
    curves: dict[str, dict[Place, list[Point]]] = {}
    for (method, place, epochs), of_seeds in sorted(values.items(), key=lambda item: item[0][2]):
        seeds = {seed: each for seed, each in of_seeds.items() if {metric, FLOPS, FLOPS + SHARED} <= each.keys()}
        if seeds:
            accuracy = {seed: scale_of(metric) * each[metric] for seed, each in seeds.items()}
            tuning, shared = (fmean(each[FLOPS + part] for each in seeds.values()) for part in ("", SHARED))
            point = Point(epochs, accuracy, tuning + shared, shared)
            curves.setdefault(method, {}).setdefault(place, []).append(point)
    return curves


def random_start(methods: Iterable[str]) -> str | None:
    """The first of these methods that is a random start, if any."""
    random = registry.find_spec("random")
    starts = ((method, registry.find_spec(method)) for method in methods)
    return next((method for method, spec in starts if random and spec and spec.initializer == random.initializer), None)


def at_compute(curve: Sequence[Point], flops: float, seed: int) -> float | None:
    """The metric of a seed at an amount of compute, interpolated over its logarithm; None outside the curve."""
    measured = [(point.flops, point.accuracy[seed]) for point in curve if seed in point.accuracy and point.epochs]
    if not measured or not measured[0][0] / WITHIN <= flops <= measured[-1][0] * WITHIN:
        return None
    compute, accuracy = zip(*measured, strict=True)
    return float(np.interp(log(flops / compute[0]), [log(each / compute[0]) for each in compute], accuracy))


def lead_at_equal_compute(
    curves: Curves, method: str, rival: str, epochs: int
) -> tuple[Difference, frozenset[Place]] | None:
    """A method after some epochs minus the rival with the same compute, paired by seed, mean over places.

    Returns:
        The difference, and the averaged places; None if the rival was not trained with this compute.
    """
    pairs: dict[Place, tuple[Mapping[int, float], dict[int, float]]] = {}
    for place, curve in curves.get(method, {}).items():
        others = curves.get(rival, {}).get(place, ())
        for point in (point for point in curve if point.epochs == epochs):
            values = {seed: at_compute(others, point.flops, seed) for seed in point.accuracy}
            measured = {seed: value for seed, value in values.items() if value is not None}
            if measured:
                pairs[place] = point.accuracy, measured
    seeds = set.intersection(*(set(other) for _, other in pairs.values())) if pairs else set()
    means = [{seed: fmean(pair[side][seed] for pair in pairs.values()) for seed in seeds} for side in (0, 1)]
    difference = paired_difference(*means)
    return None if difference is None else (difference, frozenset(pairs))


@dataclass(frozen=True)
class Choice:
    """The best method that an amount of compute allows.

    Attributes:
        method: The method.
        point: Its point.
        equals: Other methods that do not differ significantly.
    """

    method: str
    point: Point
    equals: tuple[str, ...]


def best_within(curves: Curves, place: Place, flops: float) -> Choice | None:
    """The best method on a task and network whose compute does not exceed an amount; None if all need more."""
    affordable: dict[str, Point] = {}
    for method, places in curves.items():
        points = [point for point in places.get(place, ()) if point.flops <= flops * WITHIN]
        if points:
            affordable[method] = max(points, key=lambda point: point.summary.mean)
    if not affordable:
        return None
    best = max(affordable, key=lambda method: affordable[method].summary.mean)
    others = {method: point for method, point in affordable.items() if method != best}
    leads = {method: paired_difference(affordable[best].accuracy, point.accuracy) for method, point in others.items()}
    equals = tuple(method for method, lead in leads.items() if lead is None or not lead.claimable)
    return Choice(best, affordable[best], equals)


def compute_sections(curves: Curves, rival: str) -> list[Section]:
    """The best method within amounts of compute, and all methods against one at equal compute.

    Args:
        curves: The curves.
        rival: The method that the others are compared with, usually a random start.
    """
    common = [{point.epochs for curve in of.values() for point in curve} for of in curves.values()]
    levels = sorted(n for n in set().union(*common) if n and sum(n in epochs for epochs in common) > 1)
    return [_choices(curves, rival, levels), _leads(curves, rival, levels)]


def _choices(curves: Curves, rival: str, levels: Sequence[int]) -> Section:
    places = sorted({place for of_method in curves.values() for place in of_method})
    short = short_names(architecture for _, architecture in places)
    rows = []
    for task, architecture in places:
        place = task, architecture
        curve = next(of_method[place] for of_method in (curves[rival], *curves.values()) if place in of_method)
        cells = []
        for flops in (*(next((p.flops for p in curve if p.epochs == epochs), None) for epochs in levels), inf):
            choice = best_within(curves, place, flops) if flops else None
            equals = f" (or {', '.join(choice.equals)})" if choice and choice.equals else ""
            text = f"{choice.method} {_mean(choice.point.summary)}{equals}" if choice else EMPTY_CELL
            cells.append(Cell(text))
        rows.append((f"{task}, {short[architecture]}", tuple(cells)))
    heads = (*(f"compute of {rival} {state(epochs)}" for epochs in levels), "no bound")
    text = (
        "The best method within an amount of compute: the descendant's training, its start, and its share of the "
        "training of sources. In parentheses: methods that do not differ from it significantly (paired by seed, 95 %). "
        f"Where {rival} was not measured, another method's compute is the bound."
    )
    return Section("Best start for an amount of compute", [text], [Table("", heads, tuple(rows), first="network")])


def _leads(curves: Curves, rival: str, levels: Sequence[int]) -> Section:
    rows = []
    for method, places in curves.items():
        cells = [Cell(str(len(places)))]
        for epochs in levels:
            points = [point for curve in places.values() for point in curve if point.epochs == epochs]
            lead = lead_at_equal_compute(curves, method, rival, epochs) if method != rival else None
            cells.append(Cell(f"{fmean(point.summary.mean for point in points):.1f}" if points else EMPTY_CELL))
            star = "*" * lead[0].claimable if lead else ""
            cells.append(Cell(_mean(lead[0].summary, "+") + star if lead else EMPTY_CELL))
        last = [point for curve in places.values() for point in curve if point.epochs in levels[-1:]]
        amounts = fmean(p.flops for p in last) if last else None, fmean(p.shared for p in last) if last else None
        cells += [Cell(EMPTY_CELL if amount is None else f"{amount / 1e12:.3g}") for amount in amounts]
        rows.append((method, tuple(cells)))
    heads = [head for epochs in levels for head in (state(epochs), f"minus {rival}")]
    text = (
        f"Means over networks. minus {rival}: the difference to {rival} with the same compute, interpolated over its "
        "curve, in points, over the networks where that was measured; * where its 95 % interval excludes 0. Means over "
        "different networks do not compare. Compute is that of the longest training that several methods have."
    )
    columns = ("networks", *heads, "TFLOP", "share of sources")
    return Section(f"All methods against {rival} with the same compute", [text], [Table("", columns, tuple(rows))])


def _mean(summary: Summary, sign: str = "") -> str:
    return f"{summary.mean:{sign}.1f}" + ("" if summary.half_width is None else f" ± {summary.half_width:.1f}")
