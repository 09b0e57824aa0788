"""Options of ``lgx bench`` that take several values."""

from collections.abc import Collection

from lgx.errors import UserError


def choices(option: str, text: str, known: Collection[str]) -> list[str]:
    """The names of an option, comma-separated.

    Raises:
        UserError: If one is unknown.
    """
    names = text.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UserError(f"--{option}: unknown value {', '.join(unknown)}; choose from {', '.join(known)}")
    return names


def positive(option: str, value: str | int) -> list[int]:
    """The numbers of an option, comma-separated.

    Raises:
        UserError: If one is below 1.
    """
    parts = str(value).split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UserError(f"--{option}: must be at least 1, got {value}")
    return list(map(int, parts))
