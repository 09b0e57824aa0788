"""The result of a comparison, in sentences that can be read alone."""

from collections.abc import Iterator, Mapping, Sequence

from lgx.results.looks import label_of, method_order
from lgx.results.metrics import in_words, is_share, number, with_unit
from lgx.results.report import EMPTY_CELL, Cell, Section, Table
from lgx.results.standings import Standing
from lgx.results.statistics import Difference, Summary, is_equal
from lgx.results.tables import state, summary_text

AVERAGES = "Averages"
"""Title of the section with the averages."""
_MOST = 3
"""Largest number of sentences, and of methods in a sentence."""
HOW_TO_READ = (
    "Each method gives a network its first weights. Untrained: the network is tested with these weights. After N "
    "epochs: it was first trained with each training example N times. The number in parentheses is the number of "
    "seeds: repetitions with other random numbers. ± is half of a 95 % confidence interval over seeds. A difference "
    "to another method is paired by seed, and claimed (*) only if its interval excludes 0. Equal differences have no "
    "interval. Intervals are not corrected for the number of methods."
)


def headlines(found: Sequence[Standing], levels: Mapping[str, float]) -> list[str]:
    """The result in words, a sentence or two for each number of epochs: the largest first."""
    compared = [standing for standing in found if len(standing.values) > 1] or list(found)
    chosen = compared[::-1] if len(compared) <= _MOST else [*compared[:-_MOST:-1], compared[0]]
    return [_headline(standing, standing.chance(levels)) for standing in chosen]


def average_section(found: Sequence[Standing], levels: Mapping[str, float]) -> Section | None:
    """Averages of all methods, and their leads over the reference; None with a single method."""
    methods = sorted({method for standing in found for method in standing.values}, key=method_order)
    if len(methods) < 2:
        return None
    columns: list[str] = []
    chances: list[Cell] = []
    text = [HOW_TO_READ]
    for standing in found:
        name, chance = state(standing.epochs), standing.chance(levels)
        columns.append(name)
        chances.append(Cell(EMPTY_CELL if chance is None else number(chance, standing.metric)))
        if standing.reference is not None:
            columns.append(f"{name}, minus {label_of(standing.reference)}")
            chances.append(Cell(EMPTY_CELL))
        text.append(f"{_capital(name)}: mean over {standing.place}.{_missing(standing)}")
    rows = [(label_of(m), tuple(cell for standing in found for cell in _cells(standing, m))) for m in methods]
    quantity = in_words(found[0].metric) + (" (%)" if is_share(found[0].metric) else "")
    if any(cell.text != EMPTY_CELL for cell in chances):
        rows.append(("chance", tuple(chances)))
        text.append(
            "Chance is the accuracy of guessing each class equally often. If classes have different sizes, always "
            "guessing the most frequent class gives more."
        )
    return Section(AVERAGES, below=text, tables=[Table(f"mean {quantity}", tuple(columns), tuple(rows))])


def _headline(standing: Standing, chance: float | None) -> str:
    best = standing.ranking[0]
    metric, when = standing.metric, _capital(state(standing.epochs))
    name, summary = label_of(best), standing.summary(best)
    guess = "" if chance is None else f" Chance is {with_unit(chance, metric)}."
    value = f"{with_unit(summary.mean, metric)} {in_words(metric)}"
    if len(standing.values) == 1:
        return (
            f"{when}, {name} has {value}, mean over {standing.place} ({_seeds(summary.n)}). No other method was "
            f"measured there, so nothing is compared.{guess}"
        )
    rival = standing.reference if standing.reference not in (None, best) else standing.ranking[1]
    lead = standing.lead(best, str(rival))
    other = label_of(str(rival))
    where = f"{_interval(lead)}mean over {standing.place}"
    if standing.reference is None:
        other = f"the second best, {other}"
    if lead is None:
        text = f"{when}, {name} has the best mean, {value}, but no seed in common with {other}."
    elif lead.summary.mean == 0:
        text = f"{when}, {name} and {other} have the same mean, {value} ({where})."
    elif lead.summary.n == 1:
        text = (
            f"{when}, one seed supports no claim: {name} has the best mean, {value}, {_points(lead.summary, metric)} "
            f"{_side(lead)} {other} ({where})."
        )
    elif not lead.claimable:
        text = (
            f"{when}, there is no significant difference: {name} has the best mean, {value}, "
            f"{_points(lead.summary, metric)} {_side(lead)} {other} ({where})."
        )
    else:
        text = f"{when}, {name} is best: {value}, {_points(lead.summary, metric)} {_side(lead)} {other} ({where})."
        text += _ties(standing, best, str(rival))
    return text + guess


def _ties(standing: Standing, best: str, rival: str) -> str:
    """The other methods that the best method is ahead of."""
    others = [method for method in standing.ranking if method not in (best, rival)]
    equal = [label_of(method) for method in standing.not_distinguished(best) if method != rival]
    if not others:
        return ""
    if not equal:
        number_of = "the other method" if len(others) == 1 else f"all {len(others)} other methods"
        return f" Its lead over {number_of} is significant too."
    words = ", ".join(equal) if len(equal) <= _MOST else f"{len(equal)} of the other methods"
    return f" {words} {'does' if len(equal) == 1 else 'do'} not differ from it significantly."


def _interval(lead: Difference | None) -> str:
    if lead is None or lead.summary.n == 1:
        return ""
    return f"95 % interval over {_seeds(lead.summary.n)}, "


def _points(summary: Summary, metric: str) -> str:
    width = "" if summary.half_width is None else f" ± {number(summary.half_width, metric)}"
    return f"{number(abs(summary.mean), metric)}{width}{' points' if is_share(metric) else ''}"


def _side(lead: Difference) -> str:
    return "below" if lead.summary.mean < 0 else "above"


def _cells(standing: Standing, method: str) -> Iterator[Cell]:
    """The mean of a method, and where there is a reference the lead over it."""
    reference, metric = standing.reference, standing.metric
    if method not in standing.values:
        yield from [Cell(EMPTY_CELL)] * (1 if reference is None else 2)
        return
    summary, best = standing.summary(method), standing.summary(standing.ranking[0])
    yield Cell(summary_text(summary, metric), best=len(standing.values) > 1 and is_equal(summary.mean, best.mean))
    if reference is not None:
        lead = standing.lead(method, reference) if method != reference else None
        yield Cell(summary_text(lead.summary, metric, "+") + "*" * lead.claimable if lead else EMPTY_CELL)


def _missing(standing: Standing) -> str:
    if not standing.left_out:
        return ""
    verb = "is" if len(standing.left_out) == 1 else "are"
    return f" {', '.join(map(label_of, standing.left_out))} {verb} left out, because some of these were not measured."


def _seeds(count: int) -> str:
    return f"{count} seed{'s' * (count != 1)}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
