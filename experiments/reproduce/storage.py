"""Claims about the parameters that a method stores to start all descendants: a count, without seeds or interval."""

from collections.abc import Iterable, Mapping, Sequence

from experiments.reproduce.claims import Claim
from experiments.reproduce.paper import AVERAGE, PaperTable, paper_names
from experiments.reproduce.verdicts import Answer, Verdict
from lgx.architectures import parse_any_architecture
from lgx.architectures.cost import cost_of
from lgx.core.rows import Row
from lgx.errors import UserError
from lgx.results.cost import method_costs
from lgx.results.merging import Merged

EACH = "each"
"""What a method stores that has a network of its own for every architecture."""
_STORED, _OF_NETWORKS = "stored_params", "params"


def judge_storage(
    claim: Claim,
    rows: Iterable[Row],
    stored: Mapping[str, str] | None = None,
    paper: PaperTable | None = None,
    merged: Merged | None = None,
) -> Verdict:
    """Compare the parameters that two methods store to start the descendants that both have.

    They are those of ``lgx compare --cost``, computed from the folders of the runs; where there are none, as for
    committed rows, they are counted from the architecture of each stored source.

    Args:
        claim: A claim about stored parameters.
        rows: Rows of the descendants.
        stored: By method, the architecture of its stored source, with its number of classes, or :data:`EACH` for
            separate networks of all architectures.
        paper: The paper's table.
        merged: All rows, with the folders of their runs; None leaves the folders out.

    Returns:
        The verdict: ``computed`` where the better method stores fewer parameters. The factor depends on the number of
        descendants, which ``differs`` states.
    """
    given, methods = stored or {}, (claim.better, claim.worse)
    printed = _printed(claim, paper) if paper else None
    own = [row for row in rows if row.method in methods]
    sets = [{row.architecture for row in own if row.method == method} for method in methods]
    # Separate networks are counted, so that nobody has to train them.
    names = sorted(sets[0] if given.get(claim.worse) == EACH and not sets[1] else sets[0] & sets[1])
    counts = (_in_folders(own, names, given, claim, merged) if merged else {}) or _of_sources(names, given)
    one, other = (counts.get(method) for method in methods)
    if not names or not one or other is None:
        return Verdict(claim, printed, None, 0, "not measured")
    answer: Answer = "computed" if one < other else "reversed"
    words = " against ".join(f"{count / 1e6:.2f} M" for count in (other, one))
    differs = f"{words} parameters to start {len(names)} network{'s' * (len(names) != 1)}"
    return Verdict(claim, printed, None, 0, answer, differs, factor=other / one)


def _in_folders(
    rows: Sequence[Row], names: Sequence[str], stored: Mapping[str, str], claim: Claim, merged: Merged
) -> dict[str, int]:
    """What each method stores to start these architectures, by the folders of its runs; empty without folders."""
    try:
        costs, _ = method_costs([row for row in rows if row.architecture in names], merged.rows, merged.folders)
    except UserError:  # a comparison does not fail because the folders are gone
        return {}
    counts = {cost.method: cost.stored for cost in costs if cost.stored is not None}
    if costs and stored.get(claim.worse) == EACH:
        counts.setdefault(claim.worse, costs[0].each)
    return counts


def _of_sources(names: Sequence[str], stored: Mapping[str, str]) -> dict[str, int]:
    """What each method stores according to the architecture of its source."""
    sources = {method: parse_any_architecture(name) for method, name in stored.items() if name != EACH}
    if not sources:
        return {}
    # Heads of separate networks have as many outputs as that of the source, which was trained on the same task.
    classes = next(iter(sources.values())).num_classes
    separate = sum(cost_of(parse_any_architecture(name, num_classes=classes)).parameters for name in names)
    return {method: cost_of(sources[method]).parameters if method in sources else separate for method in stored}


def _printed(claim: Claim, paper: PaperTable) -> float | None:
    """How many times fewer parameters the better method stores according to the paper's table."""
    rows = [row for row in paper.rows if row.value is not None and AVERAGE not in (row.task, row.architecture)]
    networks = sum(row.value or 0 for row in rows if row.metric == _OF_NETWORKS and not row.method)
    one, other = (
        sum(row.value or 0 for row in rows if row.metric == _STORED and row.method in paper_names(method))
        for method in (claim.better, claim.worse)
    )
    return (other or networks) / one if one else None
