"""Averages of methods over the tasks and networks that most methods share, and chance levels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from statistics import fmean

from lgx.core.rows import UNLISTED, Row
from lgx.methods import registry
from lgx.results.looks import method_order
from lgx.results.merging import Merged, Place
from lgx.results.metrics import lower_is_better, scale_of
from lgx.results.statistics import Difference, Summary, paired_difference, summarize

_GUESSED = ("acc", "acc1", "balanced_acc")
"""Metrics whose chance level follows from the number of classes."""
_SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Standing:
    """Averages after one number of epochs.

    Attributes:
        epochs: Epochs of training; 0 for untrained networks.
        metric: The metric.
        places: Tasks and architectures of the averages.
        values: Mean over the places as shown (shares in percent), by method, then by seed.
        left_out: Methods that were not measured on all places with any seed.
        reference: Method with which all others are compared; None without a named baseline and without a random start.
    """

    epochs: int
    metric: str
    places: tuple[Place, ...]
    values: Mapping[str, Mapping[int, float]]
    left_out: tuple[str, ...] = ()
    reference: str | None = None

    @cached_property
    def ranking(self) -> list[str]:
        """The methods, the best mean first."""
        sign = 1 if lower_is_better(self.metric) else -1
        return sorted(self.values, key=lambda method: (sign * self.summary(method).mean, method_order(method)))

    def summary(self, method: str) -> Summary:
        """Mean of a method over seeds."""
        return summarize([self.values[method][seed] for seed in sorted(self.values[method])])

    def lead(self, method: str, other: str) -> Difference | None:
        """``method`` minus ``other``, paired by seed; None without a common seed. For a loss, negative is better."""
        return paired_difference(self.values[method], self.values[other])

    def not_distinguished(self, method: str) -> list[str]:
        """Methods without a significant difference from a method, or without a common seed, the best first."""
        leads = {other: self.lead(method, other) for other in self.ranking if other != method}
        return [other for other, lead in leads.items() if lead is None or not lead.claimable]

    @property
    def place(self) -> str:
        """The places in words: ``6 tasks × 4 network sizes``."""
        tasks, networks = ({place[i] for place in self.places} for i in (0, 1))
        sizes = _count(len(networks), "network size")
        if len(self.places) < len(tasks) * len(networks):
            return f"{len(self.places)} pairs of task and network size"
        return f"{sizes} on {next(iter(tasks))}" if len(tasks) == 1 else f"{len(tasks)} tasks × {sizes}"

    def chance(self, levels: Mapping[str, float]) -> float | None:
        """Chance level of the averages; None if a task's chance level is unknown."""
        known = [levels[task] for task, _ in self.places if task in levels]
        return fmean(known) if len(known) == len(self.places) and self.metric in _GUESSED else None


def standings(rows: Iterable[Row], metric: str, baseline: str | None = None) -> list[Standing]:
    """A standing for each number of epochs, ascending.

    Means over different places are not comparable. Among the sets of places of each method and seed, the set with the
    largest total is taken: its size times the number of methods and seeds that have all of its places.

    Args:
        rows: Rows of one split; those of other metrics are ignored.
        metric: The metric.
        baseline: Method that the others are compared with; None for a random start, if there is one.
    """
    states: dict[int, dict[tuple[str, int], dict[Place, float]]] = {}
    for row in rows:
        if row.metric == metric and isfinite(row.value) and not row.method.endswith(UNLISTED):
            measured = states.setdefault(row.epochs, {}).setdefault((row.method, row.seed), {})
            measured[row.task, row.architecture] = scale_of(metric) * row.value
    return [_standing(epochs, metric, states[epochs], baseline) for epochs in sorted(states)]


def chance_levels(rows: Iterable[Row], merged: Merged) -> dict[str, float]:
    """Accuracy of guessing with equal probability of each class, in percent, by task.

    The number of classes comes from the run's summary. Without the run it comes from lgx's data set of the same name,
    if the number of measured examples is equal.

    Args:
        rows: Rows of any metric; tasks with rows of other metrics than accuracy are left out.
        merged: All rows, with the folders of their runs.
    """
    classes: dict[str, int] = {}
    found = [row for row in rows if row.metric in _GUESSED]
    for run in dict.fromkeys(row.run for row in found):
        stored = merged.summary(run).get("classes")
        if isinstance(stored, Mapping):
            classes |= {str(task): count for task, count in stored.items() if type(count) is int and count > 1}
    if unknown := [row for row in found if row.task not in classes]:
        classes |= _classes_of_sets(unknown)
    return {row.task: 100 / classes[row.task] for row in found if row.task in classes}


def _classes_of_sets(rows: Iterable[Row]) -> dict[str, int]:
    """Number of classes by task, if lgx's data set of this name has the measured number of examples."""
    from data_modules.catalog import infos  # needed only without runs

    known = {info.name: info for info in infos() if info.kind != "segmentation"}
    classes: dict[str, int] = {}
    for row in rows:
        info = known.get(row.task)
        if info and row.split in _SPLITS and info.sizes[_SPLITS.index(row.split)] == row.n:
            classes.setdefault(row.task, info.num_classes)
    return classes


def is_random(method: str) -> bool:
    """Whether a name in results means a random start."""
    spec, random = registry.find_spec(method), registry.find_spec("random")
    return spec is not None and random is not None and spec.initializer == random.initializer


def _standing(
    epochs: int, metric: str, measured: Mapping[tuple[str, int], Mapping[Place, float]], baseline: str | None
) -> Standing:
    candidates = {frozenset(values) for values in measured.values()}

    def score(places: frozenset[Place]) -> tuple[int, int, list[Place]]:
        return len(places) * sum(places <= values.keys() for values in measured.values()), len(places), sorted(places)

    places = max(candidates, key=score)
    values: dict[str, dict[int, float]] = {}
    for (method, seed), by_place in measured.items():
        if places <= by_place.keys():
            values.setdefault(method, {})[seed] = fmean(by_place[place] for place in sorted(places))
    left_out = sorted({method for method, _ in measured} - values.keys(), key=method_order)
    named: Sequence[str | None] = [baseline] if baseline else [name for name in values if is_random(name)]
    reference = next((name for name in named if name in values), None)
    return Standing(epochs, metric, tuple(sorted(places)), values, tuple(left_out), reference)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"
