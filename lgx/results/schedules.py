"""What the runs on disk have trained, and from what: the input of a comparison of costs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import timm
import torch
from torch.utils.flop_counter import FlopCounterMode

import lgx.methods
from lgx.architectures import parse_any_architecture
from lgx.architectures.cost import cost_of
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.core.plain_yaml import read_yaml
from lgx.core.rows import Row, read_rows
from lgx.errors import UserError
from lgx.initialization import Initializer
from lgx.methods.base import Method
from lgx.methods.baselines.finetune import Ancestor, Finetune
from lgx.methods.baselines.pretrained import Pretrained
from lgx.methods.distillation.method import Distill
from lgx.results.cost import Descendant, MethodCost, Training, method_cost

_SOURCES = ("learngene", "source")
"""Names under which initializers take a file."""


@dataclass(frozen=True)
class Run:
    """A run's folder, read where it is needed.

    Attributes:
        folder: Where its files lie.
        rows: Its results.
    """

    folder: Path
    rows: tuple[Row, ...] = ()

    @classmethod
    def at(cls, folder: Path) -> "Run":
        """The run in a folder, with its results where it has any."""
        results = folder / "results.csv"
        return cls(folder, tuple(read_rows(results)) if results.is_file() else ())

    @cached_property
    def config(self) -> dict[str, Any]:
        """What it was started with."""
        path = self.folder / "config.yaml"
        try:
            config = read_yaml(path, "train it again")
            return {**config, "model": dict(config["model"]), "data": dict(config["data"])}
        except (UserError, TypeError, KeyError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise UserError(f"{path}: not the configuration of a run ({reason}); train it again") from error

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of its method."""
        return dict(self.config["model"].get("init_args") or {})

    @cached_property
    def kind(self) -> type[Method]:
        """Class of its method; one that is not of this package counts as a method like any other."""
        name = str(self.config["model"].get("class_path", "")).rsplit(".", 1)[-1]
        found = getattr(lgx.methods, name, Method)
        return found if isinstance(found, type) and issubclass(found, Method) else Method

    @property
    def method(self) -> str:
        """Its method in the results; empty without any."""
        return self.rows[0].method if self.rows else ""

    @property
    def is_descendant(self) -> bool:
        """Whether it trained a descendant."""
        return issubclass(self.kind, Finetune) and not issubclass(self.kind, Ancestor)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What it says of itself at its end; empty if it has not come there."""
        try:
            return dict(json.loads((self.folder / "summary.json").read_text()))
        except (OSError, ValueError, TypeError):
            return {}

    @property
    def images(self) -> int | None:
        """Images that passed in training; None where the run has not ended."""
        batch = (self.config["data"].get("init_args") or {}).get("batch_size")
        accumulated = (self.config.get("trainer") or {}).get("accumulate_grad_batches") or 1
        if batch is None or not {"steps", "processes"} <= self.summary.keys():
            return None
        return int(batch) * int(accumulated) * int(self.summary["steps"]) * int(self.summary["processes"])

    @cached_property
    def learngene(self) -> Learngene | None:
        """What it has learned."""
        path = self.folder / f"best{SUFFIX}"
        return Learngene.load(path) if path.is_file() else None

    @property
    def macs(self) -> float | None:
        """MACs of one image's forward pass through what it trains; None for a hypernetwork, whose networks change."""
        if self.kind.evaluates_starts:
            return None
        if self.learngene:
            return float(cost_of(self.learngene.architecture).macs)
        return float(cost_of(parse_any_architecture(self.rows[0].architecture)).macs) if self.rows else None


class Lineage:
    """Which run began with what another one left.

    Args:
        runs: Runs that are compared; what they began with may lie elsewhere.
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        self.runs = {run.folder.resolve(): run for run in runs}

    def behind(self, arguments: Mapping[str, Any]) -> list[Run]:
        """Runs that left the files that a method's or an initializer's arguments name."""
        return [run for text in _strings(arguments) for run in self._authors(Path(text.removeprefix("local-dir:")))]

    def all_behind(self, runs: Iterable[Run]) -> list[Run]:
        """The runs, and all that they go back to, each once."""
        found: dict[Path, Run] = {}
        waiting = list(runs)
        while waiting:
            run = waiting.pop()
            if run.folder.resolve() not in found:
                found[run.folder.resolve()] = run
                waiting += self.behind(run.arguments)
        return list(found.values())

    def training(self, run: Run) -> Training:
        """How a run trained its network."""
        epochs = run.summary.get("epochs", max((row.epochs for row in run.rows), default=0))
        teacher = run.arguments.get("ancestor") if issubclass(run.kind, Distill) else None
        teacher_macs = self._teacher_macs(str(teacher)) if teacher else 0.0
        return Training(run.macs, float(epochs), run.images, teacher_macs, run.summary.get("seconds"))

    def stored(self, start: Mapping[str, Any]) -> int | None:
        """Parameters that an initializer, as a configuration has it, needs; None where they cannot be read."""
        if not start:  # a random start
            return 0
        kind = getattr(lgx.initialization, str(start.get("class_path", "")).rsplit(".", 1)[-1], None)
        if not (isinstance(kind, type) and issubclass(kind, Initializer)):
            return None
        arguments = dict(start.get("init_args") or {})
        for name in _SOURCES:
            path = Path(str(arguments.get(name, "")))
            if name in arguments and not path.exists():  # the runs may have been moved
                moved = [author.folder / path.name for author in self._authors(path)]
                arguments[name] = str(next(iter(moved), path))
        try:
            return kind(**arguments).stored_parameters
        except (UserError, TypeError):
            return None

    def _authors(self, path: Path) -> list[Run]:
        """The run in whose folder a file lies; of a learngene that was extracted from runs, those of its method."""
        for folder in (path.parent, path.parent.parent):
            if (known := self.runs.get(folder.resolve())) is not None:
                return [known]
            if (folder / "config.yaml").is_file():
                return [Run.at(folder)]
            if moved := [run for place, run in self.runs.items() if place.parts[-3:] == folder.parts[-3:]]:
                return moved[:1]
        if path.name.endswith(SUFFIX) and path.is_file():
            method = Learngene.load(path).method
            return [run for run in self.runs.values() if not run.is_descendant and run.method == method]
        return []

    def _teacher_macs(self, name: str) -> float | None:
        for author in self._authors(Path(name)):
            return author.macs
        if name.endswith(SUFFIX) and Path(name).is_file():
            return cost_of(Learngene.load(name).architecture).macs
        return _timm_macs(name)


def method_costs(
    rows: Sequence[Row], everything: Iterable[Row], folders: Mapping[str, Path]
) -> tuple[list[MethodCost], list[str]]:
    """Cost of every method whose descendants were measured; of several seeds the first counts, all cost the same.

    What a descendant started from is followed through the paths in the configurations, back to the ancestor.

    Args:
        rows: What is compared.
        everything: All that was measured, in the same and in other runs.
        folders: Where each run's files lie, by the run's name.

    Returns:
        The costs, and what had to be left out.

    Raises:
        UserError: If no descendant among the rows has its run's folder.
    """
    groups: dict[str, list[Row]] = {}
    for row in everything:
        groups.setdefault(row.run, []).append(row)
    runs = {name: Run(folders[name], tuple(group)) for name, group in groups.items()}
    there = {name: run for name, run in runs.items() if (run.folder / "config.yaml").is_file()}
    chosen: dict[str, dict[tuple[str, str], Run]] = {}
    for row in sorted(rows, key=lambda row: row.seed):
        run = there.get(row.run)
        if run is not None and (run.is_descendant or run.kind.evaluates_starts):
            chosen.setdefault(row.method, {}).setdefault((row.architecture, row.task), run)
    if not chosen:
        raise UserError(
            "--cost: none of these results lies in the folder of a descendant's run (config.yaml beside results.csv); "
            "give the folders that `lgx fit` wrote"
        )
    lineage = Lineage(there.values())
    learned = [run.learngene for run in lineage.all_behind(r for runs in chosen.values() for r in runs.values())]
    classes = next((learngene.architecture.num_classes for learngene in learned if learngene), None)
    descendants = {
        method: [_descendant(lineage, *key, run, classes) for key, run in found.items()]
        for method, found in chosen.items()
    }
    scratch = {(d.architecture, d.task): d.training for d in descendants.get("random", [])}
    costs = [
        _cost(lineage, method, list(found.values()), descendants[method], scratch) for method, found in chosen.items()
    ]
    absent = len({row.run for row in rows} - there.keys())
    notes = [f"{absent} run(s) have no config.yaml beside their results: what they cost is left out."] if absent else []
    return costs, notes


def _cost(
    lineage: Lineage,
    method: str,
    runs: Sequence[Run],
    descendants: Sequence[Descendant],
    scratch: Mapping[tuple[str, str], Training],
) -> MethodCost:
    """Cost of one method, given the run of each descendant."""
    starts = [run.arguments.get("initializer") or {} for run in runs if run.is_descendant]
    hypernets = [run for run in runs if not run.is_descendant]
    shared = not starts or any(not str(start.get("class_path")).endswith(Pretrained.__name__) for start in starts)
    direct = [*hypernets, *(run for start in starts for run in lineage.behind(start))]
    own = set() if shared else {run.folder for run in direct}
    learning: list[Training] = []
    ancestors: list[Training] = []
    for run in lineage.all_behind(direct):
        given = issubclass(run.kind, Ancestor) and run.folder not in own
        (ancestors if given else learning).append(lineage.training(run))
    needed = {_source(start): lineage.stored(start) for start in starts}
    needed |= {str(run.folder): run.learngene.num_parameters if run.learngene else None for run in hypernets}
    known = [number for number in needed.values() if number is not None]
    return method_cost(
        method,
        descendants,
        learning,
        ancestors,
        sum(known) if len(known) == len(needed) else None,
        scratch,
        shared,
    )


def _source(start: Mapping[str, Any]) -> str:
    """What an initializer reads: once stored, it serves any number of descendants and tasks."""
    arguments = start.get("init_args") or {}
    return next((str(arguments[name]) for name in _SOURCES if name in arguments), str(start.get("class_path")))


def _descendant(lineage: Lineage, architecture: str, task: str, run: Run, classes: int | None) -> Descendant:
    parsed = parse_any_architecture(architecture, **({} if classes is None else {"num_classes": classes}))
    cost = cost_of(parsed)
    training = Training(cost.macs, 0.0, 0, seconds=0.0)  # as a hypernetwork predicts it
    if run.is_descendant:
        training = replace(lineage.training(run), macs=cost.macs)
    return Descendant(architecture, task, cost.macs, cost.parameters, training)


@cache
def _timm_macs(name: str) -> float | None:
    """MACs of one image through a model that timm knows by name; None for others, whose weights may be far away."""
    if not timm.is_model(name.split(".")[0]):
        return None
    model: Any = timm.create_model(name.split(".")[0], pretrained=False).eval()
    image = torch.zeros(1, *model.default_cfg["input_size"])
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(image)
    return float(counter.get_total_flops() / 2)


def _strings(value: Any) -> list[str]:
    """All strings of a configuration that may be paths."""
    if isinstance(value, str):
        return [value] if "/" in value or value.endswith(SUFFIX) else []
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else []
    return list(dict.fromkeys(text for part in inside for text in _strings(part)))
