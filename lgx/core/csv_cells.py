"""Escape CSV cells, because spreadsheets execute a cell that begins with ``=``, ``+``, ``-`` or ``@``."""

import re
from collections.abc import Sequence

from lgx.core.schema import shortened
from lgx.errors import UserError

_FORMULA = re.compile("'*[=+\\-@\t\r]")


def escape_cell(text: str) -> str:
    """A text for a cell; one that a spreadsheet would take for a formula gets an apostrophe before it.

    A text of apostrophes before a formula gets one more, so that :func:`unescape_cell` gives every text back.
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unescape_cell(cell: str) -> str:
    """The text of a cell that :func:`escape_cell` wrote."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def refuse_doubles(header: Sequence[str], place: str) -> None:
    """Refuse a table with two columns of the same name."""
    if twice := next((name for k, name in enumerate(header) if name in header[:k]), None):
        raise UserError(f"{place}: the column {shortened(twice)} occurs twice; rename or remove one")
