"""Checks of constructor options that several methods have."""

from collections.abc import Collection

from lgx.core.task import Kind
from lgx.errors import UserError


def check_share(option: str, value: float, closed: bool = False) -> None:
    """Refuse a value outside [0, 1), or outside [0, 1] where ``closed``.

    Args:
        option: Name of the option, for the message.
        value: Its value.
        closed: Whether 1 is allowed.

    Raises:
        UserError: If the value is out of range.
    """
    if not (0 <= value < 1 or (closed and value == 1)):
        raise UserError(f"model.{option}: expected a share in [0, 1{']' if closed else ')'}, got {value}")


def check_at_least(option: str, value: float, least: float) -> None:
    """Refuse a value below ``least``.

    Raises:
        UserError: If the value is too small.
    """
    if value < least:
        raise UserError(f"model.{option}: expected at least {least:g}, got {value:g}")


def check_positive(option: str, value: float | None) -> None:
    """Refuse zero and negative values; None counts as not given.

    Raises:
        UserError: If the value is not positive.
    """
    if value is not None and value <= 0:
        raise UserError(f"model.{option}: expected a positive number, got {value:g}")


def check_kind(name: str, known: Collection[Kind], kind: Kind) -> None:
    """Refuse a kind of task that a method does not know.

    Args:
        name: Name of the method's class.
        known: What its spec declares.
        kind: What the data module gives.

    Raises:
        UserError: If the kind is not among them.
    """
    if kind not in known:
        raise UserError(f"model {name}: is for {' and '.join(known)}, but the task is {kind}; choose another --model")
