"""The record of a run, read from its folder: configuration, results, learngene and amount of training."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from lgx.architectures import Architecture, parse_any_architecture
from lgx.artifacts.sources import resolve_kept
from lgx.core.rows import Row, read_rows
from lgx.errors import UserError
from lgx.host.safety import read_yaml
from lgx.initialization import Initializer
from lgx.methods import registry
from lgx.methods.base import Method
from lgx.results.merging import RESULTS, read_summary
from lgx.training.same_run import flat_options

CONFIG = "config.yaml"
_START = "model.initializer."


@dataclass(frozen=True)
class Work:
    """An amount of training, as runs have counted it.

    Attributes:
        flops: Floating-point operations; None where a run has not counted them.
        seconds: Measured wall time; None where it was not measured.
    """

    flops: float | None = 0.0
    seconds: float | None = 0.0

    def shared(self, number: int) -> "Work":
        """The share of one of several descendants."""
        return Work(*(None if amount is None else amount / number for amount in (self.flops, self.seconds)))

    def __add__(self, other: "Work") -> "Work":
        pairs = ((self.flops, other.flops), (self.seconds, other.seconds))
        return Work(*(None if a is None or b is None else a + b for a, b in pairs))


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
        read = self.summary.get("sources", {}).items()
        digests = {key.removeprefix(_START): digest for key, digest in read if key.startswith(_START)}
        start = Start(_class_name(configured), dict(configured.get("init_args") or {}), digests)
        return start.first()

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Its summary; empty before its end."""
        return read_summary(self.folder)

    @property
    def files_read(self) -> list[tuple[str, str]]:
        """Name and digest of each file of weights that it read.

        Raises:
            UserError: If it has not ended.
        """
        if "sources" not in self.summary:
            raise UserError(f"{self.folder}: the run has not ended")
        options = flat_options(self.config)
        return [(str(options.get(option, "")), digest) for option, digest in self.summary["sources"].items()]

    @property
    def flops(self) -> float | None:
        """FLOPs of its training and of the start of its network; None where it has not counted them."""
        counted = self.summary.get("flops")
        return None if counted is None else float(counted) + float(self.summary["start_flops"])

    @property
    def work(self) -> Work:
        """Its training, with the start of its network."""
        return Work(self.flops, self.summary.get("seconds"))

    def architecture_of(self, task: str, name: str) -> Architecture:
        """An architecture of its results, with a head for the classes of a task, as far as the run has written them."""
        outputs = self.summary.get("outputs", {}).get(task)
        return parse_any_architecture(name, **({"num_classes": outputs} if outputs else {}))


def kept_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of an initializer whose sources are places of this machine; a foreign file must download nothing."""
    return {key: resolve_kept(value).place if isinstance(value, str) else value for key, value in arguments.items()}


def _class_name(configured: Mapping[str, Any]) -> str:
    return str(configured.get("class_path", "")).rpartition(".")[2]
