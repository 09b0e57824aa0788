"""Arena files: tasks, sizes, starts and budgets, and the runs that measure them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from lgx.core.names import check_name
from lgx.core.schema import LINE, MAPPING, Field, check_fields, list_of, mapping_of, one_of, shortened
from lgx.errors import UserError
from lgx.runs.sweeps import Sweep, all_behind, expand_sweep, needed_runs, read_mapping

_KEYS = {"experiment", "seeds", "config", "ancestor", "tasks", "sizes", "budgets", "starts", "sources", "scratch"}
_OPTIONAL = {"ancestor", "sources", "rival"}
_NAME = "{task}-{size}-{start}-{budget}"
_OPTIONS = Field(lambda value: isinstance(value, dict | None), "a mapping from option to value")
_NAMED = Field(lambda value: value != {} and mapping_of(MAPPING).holds(value), "a mapping from each name to options")
_EPOCHS = Field(
    lambda value: (
        isinstance(value, list) and len(value) > 0 and all(type(budget) is int and budget >= 0 for budget in value)
        and value == sorted(set(value))
    ),
    "different whole numbers of epochs, increasing, 0 for none",
)  # fmt: skip


@dataclass(frozen=True)
class Measurement:
    """A measurement of a run.

    Attributes:
        task: Name of the task in the arena file.
        size: Name of the size.
        start: Name of the start.
        budget: Epochs of training.
        seed: Seed.
    """

    task: str
    size: str
    start: str
    budget: int
    seed: int


@dataclass(frozen=True)
class Arena:
    """An arena file.

    Attributes:
        file: The file.
        runs_dir: Folder of all runs.
        experiment: Folder of the runs below ``runs_dir``.
        seeds: Seeds.
        config: Configuration of the descendants.
        tasks: Options of each task.
        sizes: Options of each size; a start may name some of them, or have sizes of its own.
        epochs: Epochs of training, unless a start has its own.
        starts: For each start its options, and optionally its own configuration, sizes and epochs.
        scratch: The start with which all others are compared at the same total compute.
        rival: The start with which other starts are compared for the number of sizes from which they are cheaper.
        ancestor: Source of the ancestor; empty without one.
        sources: Runs whose files the starts read, by their names.
    """

    file: Path
    runs_dir: str
    experiment: str
    seeds: Sequence[int]
    config: str
    tasks: Mapping[str, Mapping[str, Any]]
    sizes: Mapping[str, Mapping[str, Any]]
    epochs: Sequence[int]
    starts: Mapping[str, Mapping[str, Any]]
    scratch: str
    rival: str | None = None
    ancestor: str = ""
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def budgets(self, start: str) -> tuple[int, ...]:
        """Epochs of training from a start."""
        return tuple(self.starts[start].get("budgets", self.epochs))

    @cached_property
    def all_sizes(self) -> dict[str, Mapping[str, Any]]:
        """Options of each size, also of sizes of single starts."""
        of_starts = [entry["sizes"] for entry in self.starts.values() if isinstance(entry.get("sizes"), Mapping)]
        return {name: options for sizes in (self.sizes, *of_starts) for name, options in sizes.items()}

    def sizes_of(self, start: str) -> tuple[str, ...]:
        """Sizes that are measured from a start."""
        return tuple(self.starts[start].get("sizes", self.sizes))

    def sweep(self, longer: Mapping[tuple[str, str], int] | None = None) -> Sweep:
        """All runs.

        Args:
            longer: Epochs of a further training from scratch, by task and size.
        """
        runs = list(self._sources())
        for start in self.starts:
            runs += self._runs(start, list(self.tasks), self.sizes_of(start), self.budgets(start))
        for (task, size), epochs in (longer or {}).items():
            runs += self._runs(self.scratch, [task], [size], [epochs])
        content = {"experiment": self.experiment, "seeds": self.seeds, "runs": runs}
        return expand_sweep(self.file, content, self.runs_dir)

    def measured_by(self, run: str) -> Measurement | None:
        """The measurement of a run; None for the run of a source.

        Args:
            run: The run's folder, which may have been moved.
        """
        *_, name, seed = ("", "", *Path(run).parts)
        begin, _, budget = name.rpartition("-")
        place = self._places.get(begin)
        is_known = place and budget.isdecimal() and seed.removeprefix("seed").isdecimal()
        return Measurement(*place, int(budget), int(seed.removeprefix("seed"))) if place and is_known else None

    @cached_property
    def _places(self) -> dict[str, tuple[str, str, str]]:
        return {
            f"{task}-{size}-{start}": (task, size, start)
            for task in self.tasks
            for start in self.starts
            for size in self.sizes_of(start)
        }

    def measurements(self, sweep: Sweep) -> dict[str, Measurement]:
        """Folder of a run -> its measurement, for all runs except runs of sources."""
        found = ((spec.folder, self.measured_by(spec.folder)) for spec in sweep.runs)
        return {folder: cell for folder, cell in found if cell is not None}

    def sharing(self, sweep: Sweep) -> dict[str, dict[str, int]]:
        """For each run of a cell, the runs of its sources, each with the number of cells that share it.

        The ancestor does not count, even if a run of the arena trains it. Two cells, which are pairs of task and size,
        share a source if both start from it in the same way and with the same seed.
        """
        needs, cells = needed_runs(sweep), self.measurements(sweep)
        ancestor = self.ancestor.replace("{runs}", str(Path(self.runs_dir) / self.experiment))
        ancestors = {str(p) for seed in self.seeds for p in Path(ancestor.replace("{seed}", str(seed))).parents}
        behind = {folder: all_behind(needs, folder) - ancestors for folder in cells}
        users: dict[tuple[str, str, int], set[tuple[str, str]]] = {}
        for folder, cell in cells.items():
            for source in behind[folder]:
                users.setdefault((source, cell.start, cell.seed), set()).add((cell.task, cell.size))
        return {
            folder: {source: len(users[source, cell.start, cell.seed]) for source in behind[folder]}
            for folder, cell in cells.items()
        }

    def tasks_sharing(self, start: str) -> int:
        """Number of tasks that share the sources of a start: all, unless it names a source of one task.

        All sources of a start are assumed to be equal in this.
        """
        return 1 if "{task}" in str(self.starts[start].get("options")) else len(self.tasks)

    def _sources(self) -> Iterator[dict[str, Any]]:
        for name, source in self.sources.items():
            every = {"task": self.tasks, "size": self.sizes}
            yield {"name": name, **source, "matrix": {key: every[key] for key in every if f"{{{key}}}" in name}}

    def _runs(
        self, start: str, tasks: Sequence[str], sizes: Sequence[str], budgets: Sequence[int]
    ) -> Iterator[dict[str, Any]]:
        """Entries of the sweep for a start: one for budgets that train, one for a test without training."""
        entry = self.starts[start]
        for trains in (True, False):
            epochs = {str(budget): {"trainer.max_epochs": budget} for budget in budgets if (budget > 0) == trains}
            if epochs:
                yield {
                    "name": _NAME,
                    "command": "fit" if trains else "test",
                    "config": entry.get("config", self.config),
                    "options": {"test_end": True} if trains else {},
                    "matrix": {
                        "task": {name: self.tasks[name] for name in tasks},
                        "size": {name: self.all_sizes[name] for name in sizes},
                        "start": {start: entry.get("options") or {}},
                        "budget": epochs,
                    },
                }


def load_arena(file: str | Path, runs_dir: str = "runs") -> Arena:
    """Read an arena file.

    Args:
        file: YAML with ``experiment``, ``seeds``, ``config``, ``tasks``, ``sizes``, ``budgets``, ``starts`` and
            ``scratch``, and optionally ``ancestor``, ``sources`` and ``rival``.
        runs_dir: Folder of all runs.
    """
    file = Path(file)
    content = read_mapping(file, "an arena file such as experiments/arena/pocket.yaml")
    missing, unknown = _KEYS - _OPTIONAL - content.keys(), content.keys() - _KEYS - _OPTIONAL
    if missing or unknown:
        wrong = f"lacks {', '.join(sorted(missing))}" if missing else f"unknown key {shortened(sorted(unknown)[0])}"
        raise UserError(f"{file}: {wrong}; an arena file has {', '.join(sorted(_KEYS - _OPTIONAL))}, and may have "
                        f"{', '.join(sorted(_OPTIONAL))}")  # fmt: skip
    described = {**dict.fromkeys(("tasks", "sizes", "starts"), _NAMED), "budgets": _EPOCHS}
    check_fields(content, {**described, "sources": mapping_of(MAPPING)}, str(file))
    for key in ("tasks", "sizes", "starts"):
        for name in content[key]:
            check_name(name, f"{file}: {key}")
            if "/" in name:
                raise UserError(
                    f"{file}: {key}: a name must not contain /, because it names folders of runs, got {name}"
                )
    start = one_of(*content["starts"])
    check_fields(content, {"scratch": start, "rival": start}, str(file))
    some = list_of(one_of(*content["sizes"]))
    parts = {"options": _OPTIONS, "config": LINE, "sizes": some, "budgets": _EPOCHS}
    for name, entry in content["starts"].items():
        fields_of_start = {**parts, "sizes": _NAMED} if isinstance(entry.get("sizes"), dict) else parts
        if unknown := entry.keys() - parts:
            expected = f"expected {', '.join(parts)}"
            raise UserError(f"{file}: starts.{name}: unknown key {shortened(sorted(unknown)[0])}; {expected}")
        check_fields(entry, fields_of_start, f"{file}: starts.{name}")
    filled = _filled(content, str(content.get("ancestor", "")))
    arena = Arena(file, runs_dir, epochs=filled.pop("budgets"), **filled)
    arena.sweep()
    return arena


def _filled(value: Any, ancestor: str) -> Any:
    """The content with ``{ancestor}`` replaced by the ancestor's source."""
    if isinstance(value, dict):
        return {key: _filled(inner, ancestor) for key, inner in value.items()}
    return value.replace("{ancestor}", ancestor) if isinstance(value, str) else value
