"""The record of a run, read from its folder: configuration, results, learngene and amount of training."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from lgx.architectures import Architecture, parse_any_architecture
from lgx.architectures.cost import cost_of
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.sources import learngene_of, resolve_kept
from lgx.core.rows import Row, read_rows
from lgx.errors import UserError
from lgx.host.safety import read_yaml
from lgx.initialization import Initializer
from lgx.methods import registry
from lgx.methods.base import Method
from lgx.results.merging import RESULTS, read_summary

CONFIG = "config.yaml"
BACKWARD = 2
"""Multiplications of a backward pass per one of a forward pass: for the gradients of inputs and of weights."""


@dataclass(frozen=True)
class Work:
    """An amount of training.

    Attributes:
        epochs: Epochs as the papers count them: every epoch is 1, for any network and data set.
        images: Images of all epochs together; None where unknown.
        macs: Multiply-accumulates, i.e. image passes x MACs; None where unknown.
        seconds: Measured wall time; None where it was not measured.
    """

    epochs: float = 0.0
    images: float | None = 0.0
    macs: float | None = 0.0
    seconds: float | None = 0.0

    @classmethod
    def of(
        cls,
        macs: float | None,
        epochs: float,
        images: float | None,
        teacher: float | None = 0.0,
        seconds: float | None = None,
    ) -> "Work":
        """The training of a network: each image costs a forward and a backward pass, and the teacher's forward pass.

        Args:
            macs: MACs of one image's forward pass; None where unknown.
            epochs: Epochs.
            images: Images of all epochs together; None where unknown.
            teacher: MACs of one image through a frozen teacher; None where unknown.
            seconds: Wall time, s; None where not measured.
        """
        if macs is None or images is None or teacher is None:
            return cls(epochs, images, None, seconds)
        return cls(epochs, images, images * ((1 + BACKWARD) * macs + teacher), seconds)

    def __add__(self, other: "Work") -> "Work":
        pairs = zip(astuple(self)[1:], astuple(other)[1:], strict=True)
        return Work(self.epochs + other.epochs, *(None if None in pair else sum(pair) for pair in pairs))


@dataclass(frozen=True)
class Start:
    """The start of a descendant's weights.

    Attributes:
        name: Name of the initializer's class; empty for a random start.
        arguments: Its arguments.
    """

    name: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> type[Initializer] | None:
        """Class of the initializer; None if no installed method declares it."""
        return registry.initializer_classes().get(self.name)

    def first(self) -> "Start":
        """The start of its source, if this start copies a network of ``lgx init``; else itself."""
        try:
            record = self.kind(**kept_arguments(self.arguments)).record if self.kind else None
        except (UserError, TypeError):
            return self
        return Start(record.initializer, record.arguments) if record else self

    @property
    def is_random(self) -> bool:
        """Whether the whole start is random."""
        return not self.name or (self.kind is not None and self.kind.is_random)

    @property
    def is_shared(self) -> bool:
        """Whether its source starts descendants of several architectures."""
        return self.kind is None or self.kind.shared


@dataclass(frozen=True)
class RunRecord:
    """A run's folder; its files are read when they are needed.

    Attributes:
        folder: The folder.
        rows: The run's results.
    """

    folder: Path
    rows: tuple[Row, ...] = ()

    @classmethod
    def at(cls, folder: Path) -> "RunRecord":
        """The run in a folder, with its results if it has any."""
        results = folder / RESULTS
        return cls(folder, tuple(read_rows(results)) if results.is_file() else ())

    @property
    def exists(self) -> bool:
        """Whether the folder has a configuration."""
        return (self.folder / CONFIG).is_file()

    @cached_property
    def config(self) -> dict[str, Any]:
        """The run's configuration."""
        path = self.folder / CONFIG
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
        """Class of its method; the base class where no installed method declares it."""
        return registry.method_classes().get(_class_name(self.config["model"]), Method)

    @property
    def method(self) -> str:
        """Its method in the results; empty without results."""
        return self.rows[0].method if self.rows else ""

    @property
    def is_descendant(self) -> bool:
        """Whether it trained a descendant."""
        return self.kind.trains == "descendant"

    @property
    def start(self) -> Start:
        """The start of its descendant's weights."""
        configured = self.arguments.get("initializer") or {}
        start = Start(_class_name(configured), dict(configured.get("init_args") or {}))
        return start.first()

    @property
    def teacher(self) -> str | None:
        """The teacher that its loss compares with; None without one."""
        option = self.kind.teacher_option
        named = self.arguments.get(option) if option else None
        return str(named) if named else None

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Its summary; empty before its end."""
        return read_summary(self.folder)

    @property
    def start_flops(self) -> float:
        """FLOPs of its network's start; 0 if unknown."""
        return float(self.summary.get("start_flops", 0.0))

    @property
    def epochs(self) -> float:
        """Epochs of training."""
        return float(self.summary.get("epochs", max((row.epochs for row in self.rows), default=0)))

    @property
    def images(self) -> int | None:
        """Images of all training steps; None before the end of the run."""
        batch = (self.config["data"].get("init_args") or {}).get("batch_size")
        if batch is None or not {"steps", "processes"} <= self.summary.keys():
            return None
        processes = 1 if self.config.get("split_batch") else int(self.summary["processes"])
        accumulated = (self.config.get("trainer") or {}).get("accumulate_grad_batches") or 1
        # Summaries of older versions lack the batches; the last update of an epoch may have had fewer.
        return int(batch) * processes * int(self.summary.get("batches", accumulated * self.summary["steps"]))

    @property
    def learngene_file(self) -> Path:
        """Path of its learngene, which may not exist."""
        return learngene_of(self.folder)

    @cached_property
    def learngene(self) -> Learngene | None:
        """Its learngene; None without one."""
        return Learngene.load(self.learngene_file) if self.learngene_file.is_file() else None

    def architecture_of(self, task: str, name: str) -> Architecture:
        """An architecture of its results, with a head for the classes of a task, as far as the run has written them."""
        outputs = self.summary.get("outputs", {}).get(task)
        return parse_any_architecture(name, **({"num_classes": outputs} if outputs else {}))

    @property
    def macs(self) -> float | None:
        """MACs of one image's forward pass in a step; None for a hypernetwork, whose networks vary."""
        if macs := self.summary.get("macs"):
            return float(macs)
        if self.kind.evaluates_starts:
            return None
        if self.learngene:
            return float(cost_of(self.learngene.architecture).macs)
        row = next(iter(self.rows), None)
        return float(cost_of(self.architecture_of(row.task, row.architecture)).macs) if row else None


def kept_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of an initializer whose sources are places of this machine; a foreign file must download nothing."""
    return {key: resolve_kept(value).place if isinstance(value, str) else value for key, value in arguments.items()}


def _class_name(configured: Mapping[str, Any]) -> str:
    return str(configured.get("class_path", "")).rpartition(".")[2]
