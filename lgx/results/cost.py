"""The cost of N descendants with each method: parameters to store, and training, from the folders of runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lgx.architectures.cost import cost_of
from lgx.core.rows import Row
from lgx.errors import UserError
from lgx.host.files import digest_of
from lgx.methods.registry import method_order
from lgx.results.lineage import Lineage
from lgx.results.merging import Place
from lgx.results.report import EMPTY_CELL, Cell, Section, Table
from lgx.results.run_records import CONFIG, RunRecord, Work

COST = "Cost"
"""Title of the section with the cost."""


@dataclass(frozen=True)
class Descendant:
    """A network for one task.

    Attributes:
        architecture: Name of the architecture.
        task: Name of the task.
        parameters: Parameters to store if it were pretrained separately.
        training: Its training on the task.
    """

    architecture: str
    task: str
    parameters: int
    training: Work


@dataclass(frozen=True)
class MethodCost:
    """The cost of a set of descendants with one method.

    Attributes:
        method: Name of the method.
        architectures: Number of architectures.
        descendants: Number of descendants: one per architecture and task.
        stored: Parameters that must be stored to start all descendants; None if unknown.
        each: Parameters to store for a pretrained network per architecture.
        ancestor: Training of the ancestors, which the papers do not count.
        learning: Training of the sources of the descendants: learngene, hypernetwork, or pretrained networks.
        tuning: Training of the descendants.
        scratch: Measured training of the same descendants from scratch; None if not measured.
        pretraining: Epochs of pretraining every architecture for as long as the learngene was trained; None without
            a learngene.
    """

    method: str
    architectures: int
    descendants: int
    stored: int | None
    each: int
    ancestor: Work
    learning: Work
    tuning: Work
    scratch: Work | None = None
    pretraining: float | None = None

    @property
    def total(self) -> Work:
        """Training without the ancestor's."""
        return self.learning + self.tuning

    @property
    def separately(self) -> float | None:
        """Epochs of pretraining every architecture, followed by the same training of the descendants."""
        return None if self.pretraining is None else self.pretraining + self.tuning.epochs


def method_cost(
    method: str,
    descendants: Sequence[Descendant],
    learning: Sequence[Work] = (),
    ancestors: Sequence[Work] = (),
    stored: int | None = 0,
    scratch: Mapping[Place, Work] | None = None,
    shared: bool = True,
) -> MethodCost:
    """Add up the cost of a method.

    Args:
        method: Name of the method.
        descendants: At least one; one per architecture and task.
        learning: Trainings of the sources of the descendants.
        ancestors: Trainings of the ancestors of these sources.
        stored: Parameters that must be stored.
        scratch: Trainings from scratch by task and architecture.
        shared: Whether all descendants start from one source; False if each architecture has its own.
    """
    kinds = list({d.architecture: d for d in descendants}.values())
    alone = [work for d in descendants if (work := (scratch or {}).get((d.task, d.architecture))) is not None]
    learned = sum(learning, Work())
    return MethodCost(
        method=method,
        architectures=len(kinds),
        descendants=len(descendants),
        stored=stored,
        each=sum(kind.parameters for kind in kinds),
        ancestor=sum(ancestors, Work()),
        learning=learned,
        tuning=sum((d.training for d in descendants), Work()),
        scratch=sum(alone, Work()) if len(alone) == len(descendants) else None,
        pretraining=len(kinds) * learned.epochs if shared and learning else None,
    )


def method_costs(
    rows: Sequence[Row], everything: Iterable[Row], folders: Mapping[str, Path]
) -> tuple[list[MethodCost], list[str]]:
    """Cost of every method with measured descendants. The first seed counts, because all seeds cost the same.

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
    records = {name: RunRecord(folders[name], tuple(group)) for name, group in groups.items()}
    records = {name: run for name, run in records.items() if run.exists}
    chosen: dict[str, dict[Place, RunRecord]] = {}  # the run that trained a descendant, or that of the hypernetwork
    for row in sorted(rows, key=lambda row: row.seed):
        run = records.get(row.run)
        if run is not None and (run.is_descendant or run.kind.evaluates_starts):
            chosen.setdefault(row.method, {}).setdefault((row.task, row.architecture), run)
    if not chosen:
        raise UserError(
            f"--cost: needs folders of descendants' runs ({CONFIG} beside results.csv), but found none; give folders "
            "of `lgx fit`"
        )
    lineage = Lineage(records.values())
    descendants: dict[str, list[Descendant]] = {method: [] for method in chosen}
    for method, found in chosen.items():
        for (task, architecture), run in found.items():
            parameters = cost_of(run.architecture_of(task, architecture)).parameters
            training = run.work if run.is_descendant else Work()  # without training: predicted
            descendants[method].append(Descendant(architecture, task, parameters, training))
    scratch = {
        (d.task, d.architecture): d.training
        for method, found in chosen.items()
        if all(run.is_descendant and run.start.is_random for run in found.values())
        for d in descendants[method]
    }
    costs = [
        _cost(lineage, method, [*found.values()], descendants[method], scratch) for method, found in chosen.items()
    ]
    absent = len({row.run for row in rows} - records.keys())
    notes = [f"{absent} run(s) have no {CONFIG} beside their results: their cost is left out."] if absent else []
    return costs, notes


def _cost(
    lineage: Lineage,
    method: str,
    runs: Sequence[RunRecord],
    descendants: Sequence[Descendant],
    scratch: Mapping[Place, Work],
) -> MethodCost:
    """Cost of one method, given the run of each descendant."""
    starts = [run.start for run in runs if run.is_descendant]
    hypernets = [run for run in runs if not run.is_descendant]
    shared = not starts or any(start.is_shared for start in starts)
    direct = [*hypernets, *(source for run in runs if run.is_descendant for source in lineage.behind(run))]
    of_one_size = set() if shared else {run.folder for run in direct}
    learning: list[Work] = []
    ancestors: list[Work] = []
    for run in lineage.all_behind(direct):
        is_ancestor = run.kind.trains == "ancestor" and run.folder not in of_one_size
        (ancestors if is_ancestor else learning).append(run.work)
    if not all(map(lineage.is_complete, (*runs, *lineage.all_behind(direct)))):
        learning.append(Work(0, None, None))
    # A stored source serves any number of descendants and tasks.
    needed = {lineage.source(start): lineage.stored(start) for start in starts}
    for run in hypernets:
        file = run.learngene_file
        needed[digest_of(file) if file.is_file() else str(file)] = (
            run.learngene.num_parameters if run.learngene else None
        )
    known = [number for number in needed.values() if number is not None]
    stored = sum(known) if len(known) == len(needed) else None
    return method_cost(method, descendants, learning, ancestors, stored, scratch, shared)


def storage_table(costs: Sequence[MethodCost]) -> Table:
    """Parameters to store, in millions, or in thousands if all are small."""
    small = all(cost.each < 1e6 for cost in costs)
    unit, letter = (1e3, "k") if small else (1e6, "M")

    def cells(cost: MethodCost) -> list[str]:
        stored = EMPTY_CELL if cost.stored is None else f"{cost.stored / unit:.2f}"
        saved = f"{100 * (1 - cost.stored / cost.each):.2f} %" if cost.stored else EMPTY_CELL
        return [str(cost.architectures), stored, f"{cost.each / unit:.2f}", _ratio(cost.each, cost.stored), saved]

    columns = ("architectures", f"stored ({letter})", f"a network each ({letter})", "times fewer", "saved")
    return _table("Parameters stored to start all descendants", columns, costs, cells)


def epochs_table(costs: Sequence[MethodCost]) -> Table:
    """Training in epochs."""

    def cells(cost: MethodCost) -> list[str]:
        works = (cost.ancestor, cost.learning, cost.tuning)
        others = (cost.scratch.epochs if cost.scratch else None, cost.separately)
        return [
            str(cost.descendants),
            *(f"{work.epochs:g}" for work in works),
            *(_ratio(other, cost.total.epochs) for other in others),
        ]

    columns = ("descendants", "ancestor", "learngene", "tuning", "scratch needs", "pretraining each needs")
    return _table("Training in epochs", columns, costs, cells)


def flops_table(costs: Sequence[MethodCost]) -> Table:
    """Training in floating-point operations, and its hours."""
    works = [work for cost in costs for work in (cost.ancestor, cost.total) if work.flops]
    unit, name = _unit(max((work.flops or 0 for work in works), default=0))

    def amount(flops: float | None) -> str:
        return EMPTY_CELL if flops is None else f"{flops / unit:.3g}"

    def cells(cost: MethodCost) -> list[str]:
        hours = EMPTY_CELL if cost.total.seconds is None else f"{cost.total.seconds / 3600:.3g}"
        ratio = _ratio(cost.scratch.flops if cost.scratch else None, cost.total.flops)
        return [*(amount(work.flops) for work in (cost.ancestor, cost.learning, cost.tuning)), ratio, hours]

    columns = ("ancestor", "learngene", "tuning", "scratch needs", "hours")
    return _table(f"Training in FLOPs, {name}", columns, costs, cells)


def cost_section(costs: Sequence[MethodCost]) -> Section:
    """Cost of the descendants with each of at least one method."""
    text = [
        "Stored: the parameters that start all architectures, compared with a pretrained network per architecture.",
        "Tuning is the training of all descendants, one per architecture and task. The last columns compare two "
        "alternatives with the method's training (learngene and tuning together): training the same descendants from "
        "scratch, as measured with a random start, and pretraining every architecture for as long as the learngene "
        "was trained, followed by the same tuning. The ratios leave out ancestors, as in the papers.",
        "In epochs, every epoch counts the same, as in the papers. FLOPs are those that torch counted while the runs "
        "trained, with their teachers and starts. A dash means not measured: a run or a source of it is missing.",
    ]
    return Section(COST, text, [storage_table(costs), epochs_table(costs), flops_table(costs)])


def _table(
    title: str, columns: tuple[str, ...], costs: Sequence[MethodCost], cells: Callable[[MethodCost], list[str]]
) -> Table:
    ordered = sorted(costs, key=lambda cost: method_order(cost.method))
    return Table(title, columns, tuple((cost.method, tuple(map(Cell, cells(cost)))) for cost in ordered))


def _ratio(other: float | None, own: float | None) -> str:
    return f"{other / own:.2f}x" if other is not None and own else EMPTY_CELL


def _unit(largest: float) -> tuple[float, str]:
    """The unit that gives the largest amount one to three digits before the point."""
    units = ((1e18, "1e18"), (1e15, "1e15"), (1e12, "1e12"), (1e9, "1e9"))
    return next((unit for unit in units if largest >= unit[0]), units[-1])
