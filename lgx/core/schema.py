"""What files say of themselves: read and checked before anything is made of it, for they may come from anyone."""

import json
import math
import reprlib
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lgx.errors import UserError

LONGEST = 16 * 2**20
"""Bytes of JSON that are read at once: a hundred times what lgx writes, and little enough to be parsed in memory."""


def shortened(value: Any) -> str:
    """A value in a message: in one line, and no longer than fits one."""
    return " ".join(reprlib.repr(value).split())


class Field(NamedTuple):
    """What a value must be.

    Attributes:
        holds: Whether a value is.
        words: What it is, for the message.
    """

    holds: Callable[[Any], bool]
    words: str


def _is_line(value: Any) -> bool:
    # Control characters would steer a terminal, lone surrogates cannot be printed.
    return isinstance(value, str) and len(value) < 4096 and not {"Cc", "Cs"} & set(map(unicodedata.category, value))


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (type(value) is int and abs(value) < 2**63)


def _are_finite(value: Any) -> bool:
    return isinstance(value, list) and all(_is_number(v) and math.isfinite(v) for v in value)


def at_most(most: int, least: int = 0) -> Field:
    """A whole number within limits, both included."""
    return Field(lambda value: type(value) is int and least <= value <= most, f"a whole number, {least} to {most:,}")


def mapping_of(field: Field) -> Field:
    """A mapping from lines of text to such values."""
    return Field(
        lambda value: isinstance(value, dict) and all(_is_line(k) and field.holds(v) for k, v in value.items()),
        f"a mapping from names to {field.words}",
    )


def list_of(field: Field) -> Field:
    """A list of such values."""
    return Field(lambda value: isinstance(value, list) and all(map(field.holds, value)), f"a list of {field.words}")


def one_of(*words: str) -> Field:
    """One of some words."""
    return Field(lambda value: value in words if isinstance(value, str) else False, " or ".join(words))


LINE = Field(_is_line, "a line of text")
NUMBER = Field(_is_number, "a number")
NUMBERS = Field(_are_finite, "a list of numbers")
POSITIVE = Field(lambda value: _are_finite(value) and all(v > 0 for v in value), "a list of positive numbers")
MAPPING = Field(lambda value: isinstance(value, dict), "a mapping")
CLASSES = at_most(1_000_000)


def read_json(path: str | Path, remedy: str) -> Any:
    """Read a file of JSON.

    Args:
        path: The file.
        remedy: What would help, for the message.

    Raises:
        UserError: If it cannot be read, is too large, or is no JSON.
    """
    path = Path(path)
    if not path.is_file():  # not a pipe either, nobody may ever write to it
        raise UserError(f"{path}: no such file; {remedy}")
    try:
        with path.open("rb") as file:
            content = file.read(LONGEST + 1)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; {remedy}") from error
    return parse_json(content, str(path), remedy, numbered=True)


def parse_json(text: str | bytes, place: str, remedy: str, numbered: bool = False) -> Any:
    """Read JSON.

    Args:
        text: What was read; UTF-8 where it is bytes.
        place: Where it stands, for the message.
        remedy: What would help, likewise.
        numbered: Whether to say in which line a mistake is.

    Raises:
        UserError: If it is too long, or no JSON: a syntax error, no UTF-8, brackets nested too deeply, or a number of
            thousands of digits.
    """
    if len(text) > LONGEST:
        raise UserError(f"{place}: more than {LONGEST:,} characters of JSON; {remedy}")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        at = f"{place}, line {error.lineno}" if numbered else place
        raise UserError(f"{at}: not valid JSON ({error.msg}, column {error.colno}); {remedy}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{place}: not valid JSON ({error.reason}, no UTF-8); {remedy}") from error
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else "a number of too many digits"
        raise UserError(f"{place}: not valid JSON ({reason}); {remedy}") from error


def check_fields(values: Any, fields: Mapping[str, Field], place: str, complete: bool = False) -> dict[str, Any]:
    """Check the values of known keys.

    Args:
        values: A mapping; unknown keys are left alone.
        fields: What the value of each key must be.
        place: Where they stand, for the message.
        complete: Whether no key may be missing.

    Returns:
        The mapping.

    Raises:
        UserError: If it is none, lacks a key, or a value is not what it must be.
    """
    if not isinstance(values, dict):
        raise UserError(f"{place}: {shortened(values)}, expected keys and values")
    for key, field in fields.items():
        if key not in values and complete:
            raise UserError(f"{place}: {key} is missing, expected {field.words}")
        if key in values and not field.holds(values[key]):
            raise UserError(f"{place}: {key} is {shortened(values[key])}, expected {field.words}")
    return values
