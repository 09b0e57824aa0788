"""Read JSON of files that may come from anyone."""

import json
from pathlib import Path
from typing import Any

from lgx.errors import UserError
from lgx.host.bounded_reading import read_at_most
from lgx.host.foreign import json_errors

LARGEST = 16 * 2**20
"""Most bytes of JSON that are read: a hundred times what lgx writes, and little enough to parse in memory."""


def read_json(path: str | Path, remedy: str, largest: int = LARGEST) -> Any:
    """Read a file of JSON.

    Args:
        path: The file.
        remedy: What the user can do if it cannot be read, for the message.
        largest: Most bytes that are read.

    Raises:
        UserError: If it cannot be read, is too large, or is not JSON.
    """
    path = Path(path)
    content = read_at_most(path, largest + 1, remedy)
    return parse_json(content, str(path), remedy, numbered=True, largest=largest)


def parse_json(text: str | bytes, place: str, remedy: str, numbered: bool = False, largest: int = LARGEST) -> Any:
    """Parse JSON.

    Args:
        text: The JSON; UTF-8 if it is bytes.
        place: Where it stands, for the message.
        remedy: What the user can do if it is wrong, for the message.
        numbered: Whether to name the line of a mistake.
        largest: Most characters that are parsed.

    Raises:
        UserError: If it is too long or not JSON: a syntax error, no UTF-8, brackets nested too deeply, or a number of
            thousands of digits.
    """
    if len(text) > largest:
        raise UserError(f"{place}: more than {largest:,} characters of JSON; {remedy}")
    with json_errors(place, remedy, numbered):
        return json.loads(text)
