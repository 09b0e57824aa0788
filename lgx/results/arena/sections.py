"""The tables and sentences of an arena's report."""

from collections.abc import Sequence
from math import inf, isinf
from statistics import fmean

from lgx.architectures import parse_any_architecture
from lgx.architectures.cost import cost_of
from lgx.results.arena.arena_file import Arena
from lgx.results.arena.verdicts import (
    Curves,
    Need,
    against_scratch,
    best_within,
    cheaper_sizes,
    need_of,
    setbacks,
    target,
)
from lgx.results.merging import Place
from lgx.results.report import EMPTY_CELL, Cell, Section, Table
from lgx.results.statistics import Difference, Summary, caveat


def sections_of(arena: Arena, curves: Curves) -> list[Section]:
    """All sections without figures: choices, averages, then details.

    Args:
        arena: The arena.
        curves: Curves of the starts that were measured.
    """
    places = [(task, size) for task in arena.tasks for size in arena.all_sizes]
    places = [place for place in places if any(place in found for found in curves.values())]
    sections = [choice_section(arena, curves, places), verdict_section(arena, curves)]
    if arena.rival in curves:
        sections.append(crossover_section(arena, curves, arena.rival or ""))
    return [*sections, *(place_section(arena, curves, place) for place in places)]


def headlines(arena: Arena, curves: Curves) -> list[str]:
    """The result in words, a sentence for each budget: the largest first.

    Means over different tasks and sizes are not comparable. So only the starts that were compared with scratch on the
    most tasks and sizes are ranked; all others are named.

    Args:
        arena: The arena.
        curves: Curves of the starts that were measured.
    """
    found = []
    for budget in sorted(filter(None, arena.budgets(arena.scratch)), reverse=True):
        leads = {
            start: lead
            for start in curves
            if start != arena.scratch and (lead := against_scratch(curves, start, arena.scratch, budget)) is not None
        }
        if leads:
            most = max((places for _, places in leads.values()), key=len)
            ranked = [start for start, (_, places) in leads.items() if places == most]
            best = max(ranked, key=lambda start: leads[start][0].summary.mean)
            others = ", ".join(start for start in leads if start not in ranked)
            found.append(_headline(arena, budget, best, leads[best][0], len(most)))
            found += [f"Not ranked, because measured on other pairs of task and size: {others}."] if others else []
    return found or [f"No start was compared with {arena.scratch}, which is training from scratch."]


def choice_section(arena: Arena, curves: Curves, places: Sequence[Place]) -> Section:
    """For each task and size the best start within an amount of compute."""
    measured = {point.budget for curve in curves.get(arena.scratch, {}).values() for point in curve}
    levels = [budget for budget in arena.budgets(arena.scratch) if budget and budget in measured]
    rows = []
    for place in places:
        curve = next(found[place] for found in (curves.get(arena.scratch, {}), *curves.values()) if place in found)
        bounds = [next((point.flops.total for point in curve if point.budget == budget), None) for budget in levels]
        parameters = cost_of(parse_any_architecture(curve[0].architecture, num_classes=0)).parameters
        texts = [f"{parameters / 1e6:.2g}"]
        for flops in [*bounds, inf]:
            choice = best_within(curves, place, flops) if flops else None
            equals = f" (or {', '.join(choice.equals)})" if choice and choice.equals else ""
            texts.append(f"{choice.start} {_mean(choice.point.summary)}{equals}" if choice else EMPTY_CELL)
        rows.append((f"{place[0]}, {place[1]}", tuple(map(Cell, texts))))
    heads = (*(f"{_epochs(budget)} of {arena.scratch}" for budget in levels), "no bound")
    text = (
        "The start with the highest accuracy within a bound on total compute: the descendant's training, its start, "
        "and its share of the training of sources. In parentheses: starts that do not differ from it significantly "
        f"(paired by seed, 95 %). Parameters do not include the head. If {arena.scratch} was not measured at a size, "
        "the compute of another start is the bound."
    )
    return Section(
        "What to choose",
        [text],
        [Table("Best start", ("M parameters", *heads), tuple(rows), first="descendant")],
    )


def verdict_section(arena: Arena, curves: Curves) -> Section:
    """A line for each start: accuracy, compute, and the difference to scratch at the same total compute."""
    budgets = [budget for budget in arena.budgets(arena.scratch) if budget]
    largest = max(budgets, default=0)
    rows, counts = [], []
    machines = {
        machine for found in curves.values() for c in found.values() for point in c for machine in point.machines
    }
    for start, found in curves.items():
        last = [next((point for point in curve if point.budget == largest), curve[-1]) for curve in found.values()]
        cells = [Cell(str(len(found)))]
        for budget in budgets:
            points = [point for curve in found.values() for point in curve if point.budget == budget]
            cells.append(Cell(f"{fmean(point.summary.mean for point in points):.1f}" if points else EMPTY_CELL))
            measured = against_scratch(curves, start, arena.scratch, budget) if start != arena.scratch else None
            lead = f"{_mean(measured[0].summary, '+')}{'*' * measured[0].claimable}" if measured else EMPTY_CELL
            cells.append(Cell(lead))
            counts += [len(point.accuracy) for point in points]
        for amount in ("own", "shared", "sources"):
            cells.append(Cell(_amount(fmean(getattr(point.flops, amount) for point in last))))
        seconds = f"{fmean(point.seconds.total for point in last):.0f}"
        cells.append(Cell(seconds if len(machines) == 1 else EMPTY_CELL))
        rows.append((start, tuple(cells)))
    heads = [head for budget in budgets for head in (f"accuracy, {_epochs(budget)}", f"minus {arena.scratch}")]
    columns = ("cells", *heads, "own TFLOP", "share of sources", "all sources", "seconds")
    note = (
        f"Means over tasks × sizes (cells). minus {arena.scratch}: the difference to {arena.scratch} with the same "
        "total compute, in points, over the cells where that was measured; * where its 95 % interval excludes 0. "
        f"Means over different cells do not compare. Compute and seconds are those of {_epochs(largest)}"
        f"{'' if len(machines) == 1 else '; seconds of different machines do not compare, and are left out'}. "
        f"{caveat(counts)}"
    )
    checks = setbacks(curves, arena.scratch) or [f"More training from {arena.scratch} never ended significantly worse."]
    table = Table("All starts, averages", columns, tuple(rows), first="start")
    return Section("Verdicts", tables=[table], below=[note, *checks])


def crossover_section(arena: Arena, curves: Curves, rival: str) -> Section:
    """The number of sizes from which each start is cheaper than the rival, for the accuracy of scratch."""
    budget, count = max(arena.budgets(arena.scratch)), len(arena.sizes)
    rows = []
    for start in curves:
        if not curves[start].keys() & curves[arena.scratch].keys():  # it has sizes of its own
            continue
        own: list[Need] = []
        other: list[Need] = []
        missed = 0
        for place in curves[start]:
            wanted = target(curves, arena.scratch, budget, place)
            if wanted is None:
                continue
            pair = [_need(arena, curves, name, place, wanted) for name in (start, rival)]
            missed += pair[0] is None
            if pair[0] is not None and pair[1] is not None:
                own.append(pair[0])
                other.append(pair[1])
        cells = [str(len(own)), str(missed), *(_need_cells(own, count) if own else [EMPTY_CELL] * 3)]
        cells.append(_crossover(own, other) if own and start != rival else EMPTY_CELL)
        rows.append((start, tuple(map(Cell, cells))))
    columns = (
        "cells",
        "not reached",
        "own TFLOP",
        "shared TFLOP",
        f"for one of {count} sizes",
        f"cheaper than {rival}",
    )
    text = (
        f"Compute that reaches the mean accuracy of {arena.scratch} after {_epochs(budget)}, interpolated linearly "
        "over the logarithm of compute. ≤: the smallest budget already reaches it. Means over the cells where the "
        f"start and {rival} reach it. own: one descendant, with its task's share of the sources of its size. shared: "
        "a task's share of the sources that all sizes use."
    )
    return Section("Crossovers", [text], [Table("Compute to accuracy", columns, tuple(rows), first="start")])


def place_section(arena: Arena, curves: Curves, place: Place) -> Section:
    """All points of a task and size."""
    budgets = sorted({point.budget for found in curves.values() for point in found.get(place, ())})
    rows = []
    for start in arena.starts:
        curve = curves.get(start, {}).get(place, ())
        known = {p.budget: f"{_mean(p.summary)} at {_amount(p.flops.total)}" for p in curve}
        rows.append((start, tuple(Cell(known.get(budget, EMPTY_CELL)) for budget in budgets)))
    columns = tuple(_epochs(budget) if budget else "untrained" for budget in budgets)
    table = Table("Accuracy at total compute in TFLOP", columns, tuple(rows), first="start")
    return Section(f"{place[0]}, {place[1]}", tables=[table])


def _headline(arena: Arena, budget: int, best: str, lead: Difference, places: int) -> str:
    when = f"After {_epochs(budget)}, compared at the same total compute"
    width = "" if lead.summary.half_width is None else f" ± {lead.summary.half_width:.1f}"
    points = f"{abs(lead.summary.mean):.1f}{width} points {'below' if lead.summary.mean < 0 else 'above'} it"
    count = lead.summary.n
    how = f"95 % interval over {count} seeds, " if count > 1 else ""
    where = f"({how}mean over {places} pair{'s' * (places != 1)} of task and size)"
    scratch = f"{arena.scratch}, which is training from scratch"
    if count == 1:
        return f"{when}, one seed supports no claim against {scratch}: {best} is {points} {where}."
    if lead.claimable and lead.summary.mean > 0:
        return f"{when}, {best} is farthest ahead of {scratch}: {points} {where}."
    return f"{when}, no start is significantly better than {scratch}: the best, {best}, is {points} {where}."


def _need(arena: Arena, curves: Curves, start: str, place: Place, accuracy: float) -> Need | None:
    found = curves.get(start, {})
    if place not in found:
        return None
    return need_of(found[place], accuracy, len(arena.sizes_of(start)), arena.tasks_sharing(start))


def _need_cells(needs: Sequence[Need], count: int) -> list[str]:
    bound = "≤ " if any(need.at_most for need in needs) else ""
    own, learning = fmean(need.own for need in needs), fmean(need.learning for need in needs)
    return [bound + _amount(own), _amount(learning), bound + _amount(own + learning / count)]


def _crossover(own: Sequence[Need], other: Sequence[Need]) -> str:
    least, most = cheaper_sizes(own, other)
    if isinf(least):
        return "never"
    if most == inf:
        return "always" if least == 1 else f"from {least:.0f} sizes on"
    return f"up to {most:.0f} size{'s' if most > 1 else ''}"


def _mean(summary: Summary, sign: str = "") -> str:
    return f"{summary.mean:{sign}.1f}" + ("" if summary.half_width is None else f" ± {summary.half_width:.1f}")


def _amount(flops: float) -> str:
    return f"{flops / 1e12:.3g}" if flops else "0"


def _epochs(budget: int) -> str:
    return f"{budget} epoch{'s' if budget != 1 else ''}"
