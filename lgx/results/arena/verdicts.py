"""Evaluate the curves of an arena: differences at equal compute, crossovers, the best start within a budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, inf
from statistics import fmean

from lgx.results.arena.points import WITHIN, Curve, Point, at_compute, own_compute_to
from lgx.results.merging import Place
from lgx.results.statistics import Difference, paired_difference

Curves = Mapping[str, Mapping[Place, Curve]]


def against_scratch(
    curves: Curves, start: str, scratch: str, budget: int
) -> tuple[Difference, frozenset[Place]] | None:
    """Accuracy from a start minus that from scratch with the same total compute, paired by seed, mean over places.

    Returns:
        The difference in points of accuracy, and the averaged tasks and sizes; None if scratch was not trained with
        this compute.
    """
    pairs: dict[Place, tuple[Mapping[int, float], dict[int, float]]] = {}
    for place, curve in curves.get(start, {}).items():
        rival = curves.get(scratch, {}).get(place, ())
        for point in (point for point in curve if point.budget == budget):
            known = {seed: at_compute(rival, point.flops.total, seed) for seed in point.accuracy}
            if other := {seed: value for seed, value in known.items() if value is not None}:
                pairs[place] = (point.accuracy, other)
    seeds = set.intersection(*(set(other) for _, other in pairs.values())) if pairs else set()
    if not seeds:
        return None
    own_means, other_means = (
        {seed: fmean(pair[side][seed] for pair in pairs.values()) for seed in seeds} for side in (0, 1)
    )
    difference = paired_difference(own_means, other_means)
    return (difference, frozenset(pairs)) if difference else None


@dataclass(frozen=True)
class Need:
    """FLOPs that a start needs for the accuracy of scratch at its largest common budget.

    Attributes:
        own: Training of one descendant, and its task's share of sources that no other size uses.
        learning: Its task's share of the sources that all sizes use.
        at_most: Whether the smallest budget already reaches the accuracy.
    """

    own: float
    learning: float
    at_most: bool


def need_of(curve: Curve, accuracy: float, sizes: int, tasks: int) -> Need | None:
    """Compute that a start needs for an accuracy; None if it does not reach it.

    Args:
        curve: The start's curve.
        accuracy: The accuracy, in percent.
        sizes: Number of sizes that share its sources.
        tasks: Number of tasks that share them.
    """
    reached = own_compute_to(curve, accuracy)
    if reached is None:
        return None
    amount = curve[-1].flops
    of_task = amount.sources / tasks
    learning = (of_task - amount.shared) * sizes / (sizes - 1) if sizes > 1 else 0.0
    return Need(reached[0] + of_task - learning, learning, reached[1])


def target(curves: Curves, scratch: str, budget: int, place: Place) -> float | None:
    """Mean accuracy of scratch with a budget; None if not measured."""
    points = [point for point in curves.get(scratch, {}).get(place, ()) if point.budget == budget]
    return fmean(points[0].accuracy.values()) if points else None


def cheaper_sizes(own: Sequence[Need], other: Sequence[Need]) -> tuple[float, float]:
    """The smallest and the largest number of sizes for which a start is cheaper than another one.

    Args:
        own: Needs of the start, one for each place.
        other: Needs of the other start at the same places.

    Returns:
        The numbers; infinity without a largest number, and (inf, inf) if it is never cheaper.
    """
    saved = fmean(need.own for need in other) - fmean(need.own for need in own)
    paid = fmean(need.learning for need in own) - fmean(need.learning for need in other)
    if paid < saved:  # cheaper for a single size
        return 1, inf if saved >= 0 else max(1, ceil(paid / saved) - 1)
    return (float(int(paid / saved) + 1), inf) if saved > 0 else (inf, inf)


@dataclass(frozen=True)
class Choice:
    """The start with the highest accuracy that an amount of compute allows.

    Attributes:
        start: The start.
        point: Its point.
        equals: Other starts whose accuracy does not differ significantly.
    """

    start: str
    point: Point
    equals: tuple[str, ...]


def best_within(curves: Curves, place: Place, flops: float) -> Choice | None:
    """The best start whose total compute does not exceed an amount; None if every start needs more."""
    affordable: dict[str, Point] = {}
    for start, places in curves.items():
        if points := [point for point in places.get(place, ()) if point.flops.total <= flops * WITHIN]:
            affordable[start] = max(points, key=lambda point: point.summary.mean)
    if not affordable:
        return None
    best = max(affordable, key=lambda start: affordable[start].summary.mean)
    leads = {
        start: paired_difference(affordable[best].accuracy, point.accuracy)
        for start, point in affordable.items()
        if start != best
    }
    equals = (start for start, lead in leads.items() if lead is None or not lead.claimable)
    return Choice(best, affordable[best], tuple(equals))


def setbacks(curves: Curves, scratch: str) -> list[str]:
    """Sentences on tasks and sizes where more training from scratch ended significantly worse, if any."""
    found = []
    for (task, size), curve in curves.get(scratch, {}).items():
        for before, after in pairwise(curve):
            difference = paired_difference(after.accuracy, before.accuracy)
            if difference is not None and difference.claimable and difference.summary.mean < 0:
                found.append(
                    f"{task}, {size}: {after.budget} epochs from scratch end {-difference.summary.mean:.1f} points "
                    f"below {before.budget}."
                )
    return found
