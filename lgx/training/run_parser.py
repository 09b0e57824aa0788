"""The parser of training commands."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from jsonargparse import ArgumentParser
from lightning.pytorch.cli import LightningArgumentParser
from lightning.pytorch.loggers import Logger

from data_modules import TaskDataModule  # importing the package makes every data module known by its short name
from data_modules.module_checks import check_options, check_task
from lgx.host.cache import recall, remember
from lgx.initialization import Initializer
from lgx.methods.base import Method
from lgx.training.flags import add_flag
from lgx.training.lightning_internals import option_strings
from lgx.training.loggers import UNSET
from lgx.training.parser_messages import subclasses

BASES: dict[str, type] = {
    "model": Method,
    "data": TaskDataModule,
    "model.initializer": Initializer,
    "trainer.logger": Logger,
}
"""Key -> class whose subclasses may be its value."""


class RunParser(LightningArgumentParser):
    """Lightning's parser with flags, and loggers that follow the run. It keeps the errors of classes that it builds.

    Attributes:
        flags: Names of its flags.
        refused: Classes with their errors, in order; whoever builds clears it.
    """

    refused: ClassVar[list[tuple[type, Exception]]] = []  # of all: jsonargparse makes further parsers for classes

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.flags: list[str] = []
        self.add_instantiator(self._build, object)
        self.add_instantiator(_wanted, Logger, prepend=True)

    def add_flag(self, name: str, default: bool = False, help: str | None = None) -> None:
        """Add a boolean option."""
        add_flag(self, name, default, help)
        self.flags.append(name)

    def add_class_arguments(self, class_type: type, nested_key: str | None = None, *args: Any, **kwargs: Any) -> Any:
        """Add the arguments of a class; those of Lightning's loggers that name a place have no value of their own."""
        added = super().add_class_arguments(class_type, nested_key, *args, **kwargs)
        if issubclass(class_type, Logger):
            self.set_defaults({key: UNSET[name] for key in added if (name := key.rpartition(".")[2]) in UNSET})
        return added

    def keep_names(self, command: str) -> None:
        """Keep the names of all options, and of the arguments of lgx's methods and data modules, for later runs."""
        if recall(f"options-{command}") is None:
            classes = {
                root: {kind.__name__: _arguments(kind) for kind in subclasses(BASES[root]) if _is_own(kind)}
                for root in ("model", "data")
            }
            remember(f"options-{command}", {"options": option_strings(self), "classes": classes})

    def _build(self, kind: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
        """Build an object; a data module is checked, which may be of another package."""
        try:
            built = kind(*arguments, **options)
            if isinstance(built, TaskDataModule):
                check_task(type(built).__name__, built.task)
                check_options(built)
            return built
        except Exception as error:
            self.refused.append((kind, error))  # type: ignore[arg-type]
            raise


def _wanted(kind: type[Logger], /, **options: Any) -> "partial[Logger]":
    """A logger that is built later, because some write or connect when they are built."""
    return partial(kind, **options)


def _is_own(kind: type) -> bool:
    """Whether a class is one of lgx. Those of other packages may change while lgx does not."""
    return kind.__module__.split(".")[0] in ("lgx", "data_modules")


def _arguments(kind: type) -> list[str]:
    """Names of the arguments of a class, also of those that it passes on to its bases."""
    names: list[str] = ArgumentParser(exit_on_error=False).add_class_arguments(kind, None, sub_configs=True)
    return names
