"""The cost of descendants with each method: parameters to store, and training as torch counted it in the runs.

Runs, and the networks and learngenes of ``lgx init`` and ``lgx extract``, record a digest of each file of weights that
they read. So a file that was replaced afterwards is not mistaken for it, and one whose run was moved is identified by
its content.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lgx.architectures.cost import cost_of
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.safetensors_files import StartRecord
from lgx.artifacts.source_names import FINAL_LEARNGENE, WEIGHTS_SUFFIXES, is_remote
from lgx.artifacts.sources import is_learngene, resolve_kept
from lgx.core.rows import Row
from lgx.errors import UserError
from lgx.host.files import digest_of
from lgx.initialization.sizing import amount
from lgx.methods.registry import method_order
from lgx.results.merging import Place
from lgx.results.report import EMPTY_CELL, Cell, Section, Table
from lgx.results.run_records import CONFIG, RunRecord, Work, kept_arguments

COST = "Cost"
"""Title of the section with the cost."""
_File = tuple[str, str]
"""The name under which a file of weights was read, and its digest."""


_Weights = Callable[[], Mapping[str, Path]]
"""Files of weights in the folders of the compared runs, by their digests; called if one is not at its recorded path."""


def _by_digest(folders: Iterable[Path]) -> dict[str, Path]:
    files = (file for folder in folders for file in sorted(folder.rglob("*")))
    return {digest_of(file): file for file in files if file.suffix in WEIGHTS_SUFFIXES}


@dataclass(frozen=True)
class MethodCost:
    """The cost of a set of descendants with one method.

    Attributes:
        method: Name of the method.
        architectures: Number of architectures.
        descendants: Number of descendants: one per architecture and task.
        stored: Parameters that must be stored to start all descendants; None if unknown.
        each: Parameters to store for a pretrained network per architecture.
        learning: Training of the sources of the descendants: learngene, hypernetwork, or a pretrained network per
            architecture. An ancestor that several architectures start from does not count, as in the papers.
        tuning: Training of the descendants.
    """

    method: str
    architectures: int
    descendants: int
    stored: int | None
    each: int
    learning: Work
    tuning: Work


def method_costs(
    rows: Sequence[Row], everything: Iterable[Row], folders: Mapping[str, Path]
) -> tuple[list[MethodCost], list[str]]:
    """Cost of every method with measured descendants. The first seed counts, because all seeds cost the same.

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
    absent = len({row.run for row in rows} - records.keys())
    notes = [f"{absent} run(s) have no {CONFIG} beside their results: their cost is left out."] if absent else []
    weights = cache(lambda: _by_digest(folders.values()))
    return [_cost(method, runs, weights) for method, runs in chosen.items()], notes


def _cost(method: str, runs: Mapping[Place, RunRecord], weights: _Weights) -> MethodCost:
    """Cost of one method, given the run of each descendant."""
    sizes = {name: cost_of(run.architecture_of(task, name)).parameters for (task, name), run in runs.items()}
    trained = [run for run in runs.values() if run.is_descendant]
    hypernets = [run for run in runs.values() if not run.is_descendant]
    is_shared = bool(hypernets) or any(run.start.is_shared for run in trained)
    try:
        sources = _runs_behind([*hypernets, *(file for run in trained for file in run.files_read)], weights)
        counted = [run.work for run in sources if not (is_shared and run.kind.trains == "ancestor")]
        learning = sum(counted, Work())
    except UserError:  # an unknown source
        learning = Work(None, None)
    # A stored source serves any number of descendants and tasks.
    starts = [_stored_by_start(run, weights) for run in trained]
    stored = dict([*starts, *map(_stored_by_hypernet, hypernets)]).values()
    counts = [number for number in stored if number is not None]
    return MethodCost(
        method=method,
        architectures=len(sizes),
        descendants=len(runs),
        stored=sum(counts) if len(counts) == len(stored) else None,
        each=sum(sizes.values()),
        learning=learning,
        tuning=sum((run.work for run in trained), Work()),
    )


def _runs_behind(read: Iterable[RunRecord | _File], weights: _Weights) -> list[RunRecord]:
    """The runs from which files come, directly or through others, each once.

    Args:
        read: Files, or runs themselves.
        weights: Where files are whose runs were moved.

    Raises:
        UserError: If a file, or what a run has read, is unknown.
    """
    traced: dict[Path, RunRecord] = {}
    waiting = list(read)
    while waiting:
        each = waiting.pop()
        if not isinstance(each, RunRecord):
            waiting += _origins(*each, weights)
        elif each.folder.resolve() not in traced:
            traced[each.folder.resolve()] = each
            waiting += each.files_read
    return list(traced.values())


def _origins(name: str, digest: str, weights: _Weights) -> Sequence[RunRecord | _File]:
    """The run that wrote a file, or the files from which ``lgx init`` made it; nothing if others pretrained it."""
    file = resolve_kept(name).weights
    if file is None and is_remote(name) and not is_learngene(name):
        return []
    if file is None or digest_of(file) != digest:
        file = weights().get(digest)
    if file is None:
        raise UserError(f"{name}: not the file that was read")
    for folder in file.parents[:2]:
        if (folder / CONFIG).is_file():
            return [RunRecord.at(folder)]
    record = StartRecord.read(str(file.parent))
    if record is not None:
        return [(str(record.arguments.get(key)), read) for key, read in record.digests.items()]
    if not is_learngene(str(file)):
        return []
    sources = Learngene.load(file).sources
    if not sources:
        raise UserError(f"{name}: not in the folder of its run")
    return [("", source) for source in sources]  # `lgx extract` trains nothing, but the runs that it read did


def _stored_by_start(run: RunRecord, weights: _Weights) -> tuple[str, int | None]:
    """What identifies the source of a descendant, and the number of its parameters; None if it cannot be read."""
    start = run.start
    if not start.name:
        return "", 0
    source = start.digests.get("source") or str(start.arguments.get("source", start.name))
    arguments = dict(start.arguments)
    for name, digest in start.digests.items():
        if name in arguments and not Path(str(arguments[name])).exists():
            arguments[name] = str(weights().get(digest, arguments[name]))
    try:
        return source, start.kind(**kept_arguments(arguments)).stored_parameters if start.kind else None
    except (UserError, TypeError):
        return source, None


def _stored_by_hypernet(run: RunRecord) -> tuple[str, int | None]:
    """The same for a hypernetwork, which predicts its descendants."""
    file = run.folder / FINAL_LEARNGENE
    return (digest_of(file), Learngene.load(file).num_parameters) if file.is_file() else (str(file), None)


def cost_section(costs: Sequence[MethodCost]) -> Section:
    """Cost of the descendants with each of at least one method."""
    text = (
        "Stored: the parameters that start all architectures, compared with a pretrained network per architecture. "
        "Sources are learngenes, hypernetworks, and networks that are pretrained for each architecture; a shared "
        "ancestor does not count, as in the papers. FLOPs are those that torch counted while the runs trained, with "
        "their teachers and starts. A dash means not measured: a run or a source of it is missing."
    )
    columns = (
        "networks", "descendants", "stored", "a network each", "times fewer",
        "FLOPs of sources", "FLOPs of descendants", "hours",
    )  # fmt: skip
    rows = [(cost.method, _cells(cost)) for cost in sorted(costs, key=lambda cost: method_order(cost.method))]
    return Section(COST, [text], [Table("Cost of all descendants", columns, tuple(rows))])


def _cells(cost: MethodCost) -> tuple[Cell, ...]:
    seconds = (cost.learning + cost.tuning).seconds
    texts = (
        str(cost.architectures),
        str(cost.descendants),
        EMPTY_CELL if cost.stored is None else amount("params", cost.stored),
        amount("params", cost.each),
        f"{cost.each / cost.stored:.2f}x" if cost.stored else EMPTY_CELL,
        *(EMPTY_CELL if w.flops is None else amount("macs", w.flops) for w in (cost.learning, cost.tuning)),
        EMPTY_CELL if seconds is None else f"{seconds / 3600:.3g}",
    )
    return tuple(map(Cell, texts))
