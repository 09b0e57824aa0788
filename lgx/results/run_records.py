"""The record of a run, read from its folder: configuration, results, learngene and amount of training."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from lgx.architectures import Architecture, parse_any_architecture
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.source_names import FINAL_LEARNGENE
from lgx.artifacts.sources import resolve_kept
from lgx.core.rows import Row, read_rows
from lgx.errors import UserError
from lgx.host.safety import read_yaml
from lgx.initialization import Initializer
from lgx.methods import registry
from lgx.methods.base import Method
from lgx.results.merging import RESULTS, read_summary

CONFIG = "config.yaml"
_START = "initializer."


@dataclass(frozen=True)
class Work:
    """An amount of training, as runs have counted it.

    Attributes:
        epochs: Epochs as the papers count them: every epoch is 1, for any network and data set.
        flops: Floating-point operations; None where a run has not counted them.
        seconds: Measured wall time; None where it was not measured.
    """

    epochs: float = 0.0
    flops: float | None = 0.0
    seconds: float | None = 0.0

    def shared(self, number: int) -> "Work":
        """The share of one of several descendants."""
        parts = (None if amount is None else amount / number for amount in (self.flops, self.seconds))
        return Work(self.epochs / number, *parts)

    def __add__(self, other: "Work") -> "Work":
        pairs = ((self.flops, other.flops), (self.seconds, other.seconds))
        return Work(self.epochs + other.epochs, *(None if a is None or b is None else a + b for a, b in pairs))


@dataclass(frozen=True)
class Start:
    """The start of a descendant's weights.

    Attributes:
        name: Name of the initializer's class; empty for a random start.
        arguments: Its arguments.
        digests: Argument -> digest of the file of weights that it named when the run began.
    """

    name: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)

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
        return Start(record.initializer, record.arguments, record.digests) if record else self

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
    def is_descendant(self) -> bool:
        """Whether it trained a descendant."""
        return self.kind.trains == "descendant"

    @property
    def start(self) -> Start:
        """The start of its descendant's weights."""
        configured = self.arguments.get("initializer") or {}
        digests = {k.removeprefix(_START): v for k, v in self.digests.items() if k.startswith(_START)}
        start = Start(_class_name(configured), dict(configured.get("init_args") or {}), digests)
        return start.first()

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Its summary; empty before its end."""
        return read_summary(self.folder)

    @property
    def digests(self) -> dict[str, str]:
        """Argument of its method -> digest of the file of weights that it named."""
        return {key.removeprefix("model."): digest for key, digest in self.summary.get("sources", {}).items()}

    @property
    def flops(self) -> float | None:
        """FLOPs of its training and of the start of its network; None where it has not counted them."""
        counted = self.summary.get("flops")
        return None if counted is None else float(counted) + float(self.summary["start_flops"])

    @property
    def work(self) -> Work:
        """Its training, with the start of its network."""
        return Work(self.epochs, self.flops, self.summary.get("seconds"))

    @property
    def epochs(self) -> float:
        """Epochs of training."""
        return float(self.summary.get("epochs", max((row.epochs for row in self.rows), default=0)))

    @property
    def learngene_file(self) -> Path:
        """Path of its learngene, which may not exist."""
        return self.folder / FINAL_LEARNGENE

    @cached_property
    def learngene(self) -> Learngene | None:
        """Its learngene; None without one."""
        return Learngene.load(self.learngene_file) if self.learngene_file.is_file() else None

    def architecture_of(self, task: str, name: str) -> Architecture:
        """An architecture of its results, with a head for the classes of a task, as far as the run has written them."""
        outputs = self.summary.get("outputs", {}).get(task)
        return parse_any_architecture(name, **({"num_classes": outputs} if outputs else {}))


def kept_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of an initializer whose sources are places of this machine; a foreign file must download nothing."""
    return {key: resolve_kept(value).place if isinstance(value, str) else value for key, value in arguments.items()}


def _class_name(configured: Mapping[str, Any]) -> str:
    return str(configured.get("class_path", "")).rpartition(".")[2]
