"""The declaration of a method: all that the rest of lgx knows about it."""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from lgx.artifacts.learngene import Content
    from lgx.core.task import Kind

Dash = Literal["-", "--", ":", "-."]

BLACK, GRAY, BLUE, SKY = "#000000", "#8c8c8c", "#0072b2", "#56b4e9"
GREEN, ORANGE, RED, PINK = "#009e73", "#e69f00", "#d55e00", "#cc79a7"
"""Okabe and Ito's palette, readable with color blindness; gray replaces its yellow, which is too faint on white."""


@dataclass(frozen=True)
class Look:
    """How tables and figures show one name of the results.

    Attributes:
        name: The name in ``results.csv``, of the method or of a variant, e.g. ``sws_order2``.
        label: Words for a legend, e.g. ``SWS, order 2``.
        color: Color of its lines, ``#rrggbb``.
        dash: Dash of its lines.
    """

    name: str
    label: str
    color: str
    dash: Dash = "-"


@dataclass(frozen=True)
class MethodSpec:
    """A method's declaration. It imports nothing heavy: classes are named by their path and loaded when needed.

    Attributes:
        name: Name in results, in ``lgx init --method`` and in learngene files, e.g. ``sws``.
        paper: Authors, title, venue and year of the paper.
        url: Where the paper can be read.
        summary: One sentence for readers of a report who do not know the method: where the weights come from.
        looks: How tables and figures show the method and its variants, in the order of tables. Without an entry the
            method is shown by its name.
        module: Path of the class that ``lgx fit --model`` trains, ``package.module:Class``; None for a pure start.
        initializer: Path of the default initializer of a descendant, likewise; None where the method gives no start.
        learngene: What the method's learngene holds; None without one.
        kinds: Kinds of task that the method knows.
        aliases: Further names that ``lgx init --method`` accepts.
        trained_name: What papers call a descendant of this start after training; None where it keeps the name.
        variants: Options that are a part of the method's name in results, each with the value that the name leaves
            out, as the papers' tables write it: ``order=1``.
        order: Place among the methods in tables and help; equal numbers are ordered by name.
    """

    name: str
    paper: str
    url: str
    summary: str = ""
    looks: tuple[Look, ...] = ()
    module: str | None = None
    initializer: str | None = None
    learngene: "Content | None" = None
    kinds: tuple["Kind", ...] = ("classification",)
    aliases: tuple[str, ...] = ()
    trained_name: str | None = None
    variants: tuple[str, ...] = ()
    order: int = 1000

    @property
    def names(self) -> tuple[str, ...]:
        """The name and its aliases."""
        return (self.name, *self.aliases)

    @property
    def label(self) -> str:
        """Words for a legend; the name where no look says more."""
        return next((look.label for look in self.looks if look.name == self.name), self.name)


def imported(path: str) -> Any:
    """The object at ``package.module:name``."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
