"""Check the values of options, and of descriptions in files, which may come from anyone, before they are used."""

import reprlib
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lgx.errors import UserError


def shortened(value: Any) -> str:
    """A value for a message: in one line, and short."""
    return " ".join(reprlib.repr(value).split())[:300]


class Field(NamedTuple):
    """What a value must be.

    Attributes:
        holds: Whether a value satisfies it.
        words: Description for the message, e.g. ``a line of text``.
    """

    holds: Callable[[Any], bool]
    words: str


def _is_line(value: Any) -> bool:
    # Control characters can steer a terminal, and lone surrogates cannot be printed.
    return isinstance(value, str) and len(value) < 4096 and not {"Cc", "Cs"} & set(map(unicodedata.category, value))


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (type(value) is int and abs(value) < 2**63)


def at_most(most: int, least: int = 0) -> Field:
    """A whole number, ``least`` to ``most``, both included."""
    return Field(lambda value: type(value) is int and least <= value <= most, f"a whole number, {least} to {most:,}")


def between(least: float, most: float) -> Field:
    """A number, ``least`` to ``most``, both included."""
    return Field(lambda value: type(value) in (int, float) and least <= value <= most, f"a number, {least} to {most}")


def or_none(field: Field) -> Field:
    """None, or a value of ``field``."""
    return Field(lambda value: value is None or field.holds(value), f"{field.words}, or none")


def mapping_of(field: Field) -> Field:
    """A mapping from lines of text to values of ``field``."""
    return Field(
        lambda value: isinstance(value, dict) and all(_is_line(k) and field.holds(v) for k, v in value.items()),
        f"a mapping from names to {field.words}",
    )


def list_of(field: Field) -> Field:
    """A list of values of ``field``."""
    return Field(lambda value: isinstance(value, list) and all(map(field.holds, value)), f"a list of {field.words}")


def one_of(*words: str) -> Field:
    """One of ``words``."""
    return Field(lambda value: value in words if isinstance(value, str) else False, " or ".join(words))


LINE = Field(_is_line, "a line of text")
NUMBER = Field(_is_number, "a number")
MAPPING = Field(lambda value: isinstance(value, dict), "a mapping")
CLASSES = at_most(1_000_000)


def check_fields(values: Any, fields: Mapping[str, Field], location: str, complete: bool = False) -> dict[str, Any]:
    """Check the values of some keys.

    Args:
        values: A mapping; other keys are not checked.
        fields: What the value of each key must be.
        location: Where the values stand, for the message.
        complete: Whether every key must be there.

    Returns:
        The mapping.
    """
    if not isinstance(values, dict):
        raise UserError(f"{location}: {shortened(values)}, expected keys and values")
    for key, field in fields.items():
        if key not in values and complete:
            raise UserError(f"{location}: {key} is missing, expected {field.words}")
        if key in values and not field.holds(values[key]):
            raise UserError(f"{location}: {key} is {shortened(values[key])}, expected {field.words}")
    return values


def all_values(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """All values with their keys as the command line spells them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from all_values(inner, place if key == "init_args" else f"{place}.{key}" if place else str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from all_values(inner, place)
    else:
        yield place, value


def check_option(option: str, value: float, holds: bool, words: str) -> None:
    """Refuse a value of an option.

    Args:
        option: Name of the option, for the message.
        value: Its value.
        holds: Whether it is accepted.
        words: What is accepted, e.g. ``a share in [0, 1]``.
    """
    if not holds:
        raise UserError(f"model.{option}: expected {words}, got {value}")


def refuse_doubles(header: Sequence[str], path: str) -> None:
    """Refuse a table with two columns of the same name."""
    twice = next((name for k, name in enumerate(header) if name in header[:k]), None)
    if twice:
        raise UserError(f"{path}: the column {shortened(twice)} occurs twice; rename or remove one")
