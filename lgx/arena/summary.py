"""What an arena found, in sentences for readers who have read nothing else, and what its starts are."""

from collections.abc import Iterable

from lgx.arena.arena_file import Arena
from lgx.arena.verdicts import Curves, against_scratch
from lgx.core.rows import Row
from lgx.methods import registry
from lgx.results.sections import Item, Section
from lgx.results.statistics import Difference


def headlines(arena: Arena, curves: Curves) -> list[str]:
    """The result in words, a sentence for each budget: the largest first.

    Means over different tasks and sizes do not compare: only the starts that were compared with scratch at most places
    are ranked, and the others are named.

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
            found += [f"Not ranked, because compared at other pairs of task and size: {others}."] if others else []
    return found or [f"No start was compared with {arena.scratch}, which is training from scratch."]


def start_section(arena: Arena, rows: Iterable[Row]) -> Section:
    """What each start does, and where it was published.

    Args:
        arena: The arena.
        rows: Rows of its runs.
    """
    methods = {cell.start: row.method for row in rows if (cell := arena.cell_of(row.run)) is not None}
    items = []
    for start in arena.starts:
        if start in methods:
            spec = registry.find_spec(methods[start])
            text = f"{spec.summary} {spec.paper}.".strip() if spec else "A method that is not installed."
            items.append(Item(f"{start} ({methods[start]})", text, spec.url if spec else ""))
    return Section("Starts", items=items)


def _headline(arena: Arena, budget: int, best: str, lead: Difference, places: int) -> str:
    when = f"After {budget} epoch{'s' * (budget != 1)}, compared at the same total compute"
    width = "" if lead.summary.half_width is None else f" ± {lead.summary.half_width:.1f}"
    points = f"{abs(lead.summary.mean):.1f}{width} points {'below' if lead.summary.mean < 0 else 'above'} it"
    count = lead.summary.n
    how = f"95 % interval over {count} seeds, " if count > 1 else ""
    where = f"({how}mean over {places} pair{'s' * (places != 1)} of task and size)"
    scratch = f"{arena.scratch}, which is training from scratch"
    if count == 1:
        return f"{when}, one seed allows no claim against {scratch}: {best} is {points} {where}."
    if lead.claimable and lead.summary.mean > 0:
        return f"{when}, {best} is farthest ahead of {scratch}: {points} {where}."
    return f"{when}, no start is significantly better than {scratch}: the best, {best}, is {points} {where}."
