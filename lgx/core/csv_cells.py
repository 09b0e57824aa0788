"""Cells of CSV files that spreadsheets show as text: they run a cell that begins with ``=``, ``+``, ``-`` or ``@``."""

import re

_FORMULA = re.compile("'*[=+\\-@\t\r]")


def escape_cell(text: str) -> str:
    """A text for a cell; one that a spreadsheet would take for a formula gets an apostrophe before it.

    A text of apostrophes before a formula gets one more, so that :func:`unescape_cell` gives every text back.
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unescape_cell(cell: str) -> str:
    """The text of a cell that :func:`escape_cell` wrote."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
