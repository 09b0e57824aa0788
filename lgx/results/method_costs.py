"""The cost of every method, computed from the folders of runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lgx.architectures.cost import cost_of
from lgx.core.rows import Row
from lgx.errors import UserError
from lgx.results.cost import Descendant, MethodCost, Training, method_cost
from lgx.results.lineage import Lineage
from lgx.results.merging import Place
from lgx.results.run_records import CONFIG, RunRecord


def method_costs(
    rows: Sequence[Row], everything: Iterable[Row], folders: Mapping[str, Path]
) -> tuple[list[MethodCost], list[str]]:
    """Cost of every method with measured descendants. Of several seeds the first counts, since all cost the same.

    The source of a descendant is followed through the paths in the configurations, back to the ancestor.

    Args:
        rows: Rows that are compared.
        everything: All rows of these and of other runs.
        folders: Folder of each run by the run's name.

    Returns:
        The costs, and notes on the runs that were left out.
    """
    groups: dict[str, list[Row]] = {}
    for row in everything:
        groups.setdefault(row.run, []).append(row)
    runs = {name: RunRecord(folders[name], tuple(group)) for name, group in groups.items()}
    runs = {name: run for name, run in runs.items() if run.exists}
    chosen = _runs_of_descendants(rows, runs)
    if not chosen:
        raise UserError(
            f"--cost: none of these results is in the folder of a descendant's run ({CONFIG} beside results.csv); "
            f"give the folders that `lgx fit` wrote"
        )
    lineage = Lineage(runs.values())
    descendants = {
        method: [_descendant(lineage, *place, run) for place, run in found.items()] for method, found in chosen.items()
    }
    scratch = {
        (d.task, d.architecture): d.training
        for method, found in chosen.items()
        if all(run.is_descendant and run.start.is_random for run in found.values())
        for d in descendants[method]
    }
    costs = [
        _cost(lineage, method, list(found.values()), descendants[method], scratch) for method, found in chosen.items()
    ]
    absent = len({row.run for row in rows} - runs.keys())
    notes = [f"{absent} run(s) have no {CONFIG} beside their results: their cost is left out."] if absent else []
    return costs, notes


def _runs_of_descendants(rows: Iterable[Row], runs: Mapping[str, RunRecord]) -> dict[str, dict[Place, RunRecord]]:
    """For each method the run of each descendant: the one that trained it, or that of the hypernetwork."""
    chosen: dict[str, dict[Place, RunRecord]] = {}
    for row in sorted(rows, key=lambda row: row.seed):
        run = runs.get(row.run)
        if run is not None and (run.is_descendant or run.kind.evaluates_starts):
            chosen.setdefault(row.method, {}).setdefault((row.task, row.architecture), run)
    return chosen


def _cost(
    lineage: Lineage,
    method: str,
    runs: Sequence[RunRecord],
    descendants: Sequence[Descendant],
    scratch: Mapping[Place, Training],
) -> MethodCost:
    """Cost of one method, given the run of each descendant."""
    starts = [run.start for run in runs if run.is_descendant]
    hypernets = [run for run in runs if not run.is_descendant]
    shared = not starts or any(start.is_shared for start in starts)
    direct = [*hypernets, *(run for start in starts for run in lineage.behind(start.arguments))]
    of_one_size = set() if shared else {run.folder for run in direct}
    learning: list[Training] = []
    ancestors: list[Training] = []
    for run in lineage.all_behind(direct):
        is_ancestor = run.kind.trains == "ancestor" and run.folder not in of_one_size
        (ancestors if is_ancestor else learning).append(lineage.training(run))
    # A stored source serves any number of descendants and tasks.
    needed = {lineage.source(start): lineage.stored(start) for start in starts}
    for run in hypernets:
        needed[str(run.learngene_file.resolve())] = run.learngene.num_parameters if run.learngene else None
    known = [number for number in needed.values() if number is not None]
    stored = sum(known) if len(known) == len(needed) else None
    return method_cost(method, descendants, learning, ancestors, stored, scratch, shared)


def _descendant(lineage: Lineage, task: str, architecture: str, run: RunRecord) -> Descendant:
    cost = cost_of(run.architecture_of(task, architecture))
    training = Training(cost.macs, 0.0, 0, seconds=0.0)  # a hypernetwork predicts it without training
    if run.is_descendant:
        training = replace(lineage.training(run), macs=cost.macs)
    return Descendant(architecture, task, cost.macs, cost.parameters, training)
