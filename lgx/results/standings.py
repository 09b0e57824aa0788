"""Averages of methods over the tasks and networks that most methods share, and the result in a sentence each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from statistics import fmean

from lgx.core.rows import UNLISTED, Row
from lgx.methods import registry
from lgx.methods.registry import method_order
from lgx.results.merging import Place
from lgx.results.metrics import in_words, is_share, lower_is_better, scale_of
from lgx.results.report import EMPTY_CELL, Cell, Section, Table
from lgx.results.statistics import Difference, Summary, is_equal, paired_difference, summarize
from lgx.results.tables import state, summary_text

AVERAGES = "Averages"
"""Title of the section with the averages."""
_HOW_TO_READ = (
    "The number in parentheses is the number of seeds, and ± is half of a 95 % confidence interval over seeds. A "
    "difference to another method is paired by seed, and claimed (*) only if its interval excludes 0; intervals are "
    "not corrected for the number of methods."
)


@dataclass(frozen=True)
class Standing:
    """Averages after one number of epochs.

    Attributes:
        epochs: Epochs of training; 0 for untrained networks.
        metric: The metric.
        places: Tasks and architectures of the averages.
        values: Mean over the places as shown (shares in percent), by method, then by seed; without methods that were
            not measured on all places with any seed.
        reference: Method with which all others are compared; None without a named baseline and without a random start.
    """

    epochs: int
    metric: str
    places: tuple[Place, ...]
    values: Mapping[str, Mapping[int, float]]
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

    @property
    def place(self) -> str:
        """The places in words: ``6 tasks × 4 networks``."""
        tasks, networks = ({place[i] for place in self.places} for i in (0, 1))
        if len(self.places) < len(tasks) * len(networks):
            return f"{len(self.places)} pairs of task and network"
        return f"{_count(len(tasks), 'task')} × {_count(len(networks), 'network')}"

    @property
    def headline(self) -> str:
        """The best method and its lead, in a sentence that can be read alone."""
        best, *others = self.ranking
        mean = summary_text(self.summary(best), self.metric)
        text = f"{state(self.epochs).capitalize()}, {best} has the best {_quantity(self.metric)}, {mean}"
        rival = self.reference if self.reference not in (None, best) else next(iter(others), None)
        lead = self.lead(best, rival) if rival else None
        if rival is None or lead is None:
            return f"{text}, over {self.place}."
        claim = "significant" if lead.claimable else "not significant"
        claim = "one seed supports no claim" if lead.summary.n == 1 else claim
        difference = summary_text(lead.summary, self.metric, "+")
        return f"{text}: {difference} against {rival} ({claim}), over {self.place}."


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


def random_start(methods: Iterable[str]) -> str | None:
    """The first of these methods that is a random start, if any."""
    random = registry.find_spec("random")
    starts = ((method, registry.find_spec(method)) for method in methods)
    return next((method for method, spec in starts if random and spec and spec.initializer == random.initializer), None)


def average_section(found: Sequence[Standing]) -> Section | None:
    """Averages of all methods, and their leads over the reference; None with a single method."""
    methods = sorted({method for standing in found for method in standing.values}, key=method_order)
    if len(methods) < 2:
        return None
    columns: list[str] = []
    places: list[str] = []
    for standing in found:
        name = state(standing.epochs)
        columns += [name] if standing.reference is None else [name, f"{name}, minus {standing.reference}"]
        places.append(f"{name} {standing.place}")
    rows = [(m, tuple(cell for standing in found for cell in _cells(standing, m))) for m in methods]
    text = f"Means of the methods that have all of these: {'; '.join(places)}."
    return Section(AVERAGES, [_HOW_TO_READ, text], [Table(_quantity(found[0].metric), tuple(columns), tuple(rows))])


def _cells(standing: Standing, method: str) -> list[Cell]:
    """The mean of a method, and where there is a reference the lead over it."""
    reference, metric = standing.reference, standing.metric
    if method not in standing.values:
        return [Cell(EMPTY_CELL)] * (1 if reference is None else 2)
    summary = standing.summary(method)
    best = standing.summary(standing.ranking[0])
    mean = Cell(summary_text(summary, metric), best=len(standing.values) > 1 and is_equal(summary.mean, best.mean))
    if reference is None:
        return [mean]
    lead = standing.lead(method, reference) if method != reference else None
    return [mean, Cell(summary_text(lead.summary, metric, "+") + "*" * lead.claimable if lead else EMPTY_CELL)]


def _quantity(metric: str) -> str:
    """``mean accuracy (%)``, ``mean average precision (%)``."""
    words = in_words(metric)
    return ("" if words.startswith("mean ") else "mean ") + words + (" (%)" if is_share(metric) else "")


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
    reference = baseline if baseline in values else None if baseline else random_start(values)
    return Standing(epochs, metric, tuple(sorted(places)), values, reference)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"
