"""The registry of architecture families, and the papers' names of architectures."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from lgx.architectures.base import DEFAULT_FAMILY, Architecture
from lgx.errors import UserError

A = TypeVar("A", bound=Architecture)

FAMILIES: dict[str, type[Architecture]] = {}
"""All families by name. A family's own module registers it, and ``lgx.architectures`` imports the module."""

NAMED: dict[str, Architecture] = {}
"""All named architectures, e.g. ``6-Small``; every one has the classes and the kind of its family's default."""


def register_family(family: type[A], named: Mapping[str, A]) -> None:
    """Make a family known to the parser, the dictionary reader and the names.

    Args:
        family: The class that describes architectures of the family.
        named: Names of architectures in the papers; of several names of one architecture the first is shown.

    Raises:
        ValueError: If the name of the family or of an architecture is taken.
    """
    if taken := sorted({family.family} & FAMILIES.keys() | named.keys() & NAMED.keys()):
        raise ValueError(f"{family.__name__}: already registered: {', '.join(taken)}")
    FAMILIES[family.family] = family
    NAMED.update(named)


def architecture_from_dict(values: Mapping[str, Any]) -> Architecture:
    """Inverse of :meth:`Architecture.to_dict` of every family; without the key ``family`` it is a ViT."""
    family = values.get("family", DEFAULT_FAMILY)
    if not isinstance(family, str) or family not in FAMILIES:
        raise UserError(f"architecture: family {family!r} is unknown; known are {' and '.join(FAMILIES)}")
    return FAMILIES[family].from_dict(values)


def name_of(architecture: Architecture) -> str:
    """The first of the papers' names that fits (``6-Small``), else :meth:`Architecture.spec`.

    The number of classes and the kind do not count, because they belong to the task.
    """
    plain = architecture.without_task()
    return next((name for name, named in NAMED.items() if named == plain), architecture.spec())


@contextmanager
def naming_source(source: Architecture | None, architecture: Architecture) -> Iterator[None]:
    """Name the architecture of a start's source in errors, where it is another one.

    Args:
        source: Architecture of the source; None without one.
        architecture: That of the network that starts.
    """
    try:
        yield
    except UserError as error:
        source_name = name_of(source) if source else ""
        if source_name in str(error) or source == architecture:  # also if there is none
            raise
        raise UserError(f"{error} (the source is {source_name})") from error
