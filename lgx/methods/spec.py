"""The declaration of a method: all that the rest of lgx knows about it."""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lgx.artifacts.learngene import Content
    from lgx.core.task import Kind


@dataclass(frozen=True)
class MethodSpec:
    """A method's declaration. It imports nothing heavy: classes are named by their path and loaded when needed.

    Attributes:
        name: Name in results, in ``lgx init --method`` and in learngene files, e.g. ``sws``.
        paper: Authors, title, venue and year of the paper.
        url: Where the paper can be read.
        module: Path of the class that ``lgx fit --model`` trains, ``package.module:Class``; None for a pure start.
        initializer: Path of the default initializer of a descendant, likewise; None where the method gives no start.
        learngene: What the method's learngene holds; None without one.
        kinds: Kinds of task that the method knows.
        why_not: Why it does not know the other kinds; empty if it knows all.
        aliases: Further names that ``lgx init --method`` accepts.
        trained_name: What papers call a descendant of this start after training; None where it keeps the name.
        variants: Options that are a part of the method's name in results, each with the value that the name leaves
            out, as the papers' tables write it: ``order=1``.
        order: Place among the methods in tables and help; equal numbers are ordered by name.
    """

    name: str
    paper: str
    url: str
    module: str | None = None
    initializer: str | None = None
    learngene: "Content | None" = None
    kinds: tuple["Kind", ...] = ("classification",)
    why_not: str = ""
    aliases: tuple[str, ...] = ()
    trained_name: str | None = None
    variants: tuple[str, ...] = ()
    order: int = 1000

    @property
    def names(self) -> tuple[str, ...]:
        """The name and its aliases."""
        return (self.name, *self.aliases)


def imported(path: str) -> Any:
    """The object at ``package.module:name``."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
