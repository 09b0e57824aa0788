"""The parser of training commands."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from jsonargparse import ArgumentParser, Namespace
from lightning.pytorch.cli import LightningArgumentParser
from lightning.pytorch.loggers import Logger

from data_modules import TaskDataModule  # importing the package makes every data module known by its short name
from data_modules.module_checks import check_options, check_task
from lgx.initialization import Initializer
from lgx.methods.base import Method
from lgx.training.flags import add_flag
from lgx.training.loggers import OPTIONS
from lgx.training.option_names import OptionNames
from lgx.training.parser_messages import subclasses

BASES: dict[str, type] = {
    "model": Method,
    "data": TaskDataModule,
    "model.initializer": Initializer,
    "trainer.logger": Logger,
}
"""Key -> class whose subclasses may be its value."""


class RunParser(LightningArgumentParser):
    """Lightning's parser with flags and lgx's options of loggers.

    It keeps the errors that classes raise while they are built.

    Args:
        command: Name under which its option names are kept.
        kwargs: Arguments of Lightning's parser.

    Attributes:
        flags: Names of its flags.
        refused: Classes with their errors, in order, since :meth:`begin`.
    """

    def __init__(self, command: str = "fit", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command = command
        self.flags: list[str] = []
        self.refused: list[tuple[type, Exception]] = []
        self._dumped: tuple[Namespace, str] | None = None

    def begin(self) -> None:
        """Forget what an earlier command line has left: who builds its objects, and what they refused."""
        self._instantiators = None
        self.refused = []
        self._dumped = None

    def text_of(self, config: Namespace) -> str:
        """A configuration that this parser has parsed, as YAML; a run needs it twice, and it takes long.

        Args:
            config: The configuration; the caller does not change it afterwards.
        """
        if self._dumped is None or self._dumped[0] != config:
            self._dumped = config, str(self.dump(config, skip_unset=False, skip_validation=True))
        return self._dumped[1]

    def add_flag(self, name: str, default: bool = False, help: str | None = None) -> None:
        """Add a boolean option."""
        add_flag(self, name, default, help)
        self.flags.append(name)

    def add_class_arguments(self, class_type: type, nested_key: str | None = None, *args: Any, **kwargs: Any) -> Any:
        """Add the arguments of a class; a logger that the user chooses has lgx's options, see OPTIONS."""
        kind = class_type if nested_key == "logger" else OPTIONS.get(class_type, class_type)
        return super().add_class_arguments(kind, nested_key, *args, **kwargs)

    def option_names(self) -> OptionNames:
        """Names of all options and of the arguments of lgx's methods and data modules; kept for later runs."""
        if (kept := OptionNames.recall(self.command)) is not None:
            return kept
        options = [option for action in self._actions for option in action.option_strings if option.startswith("-")]
        inner = {option.rpartition(".")[0] for option in options if not option.endswith((".help", "+"))}
        classes = {
            root: {kind.__name__: _arguments(kind) for kind in subclasses(BASES[root]) if _is_own(kind)}
            for root in ("model", "data")
        }
        found = OptionNames(options, sorted(inner - {""}), classes)
        found.keep(self.command)
        return found

    def add_instantiator(self, instantiator: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Add what builds the objects of a class; see jsonargparse."""

        @wraps(instantiator)
        def build(kind: type, /, *arguments: Any, **options: Any) -> Any:
            try:
                built = instantiator(kind, *arguments, **options)
                if isinstance(built, TaskDataModule):
                    check_task(type(built).__name__, built.task)
                    check_options(built)
                return built
            except Exception as error:
                self.refused.append((kind, error))
                raise

        super().add_instantiator(build, *args, **kwargs)


def _is_own(kind: type) -> bool:
    """Whether a class is one of lgx. Those of other packages may change while lgx does not."""
    return kind.__module__.split(".")[0] in ("lgx", "data_modules")


def _arguments(kind: type) -> list[str]:
    """Names of the arguments of a class, also of those that it passes on to its bases."""
    names: list[str] = ArgumentParser(exit_on_error=False).add_class_arguments(kind, None, sub_configs=True)
    return names
