"""Read no more of a file that may come from anyone than its reader can take."""

from pathlib import Path

from lgx.errors import UserError


def read_at_most(path: Path, largest: int, remedy: str) -> bytes:
    """Read the first bytes of a file; one more than allowed tells that a file is too large.

    Args:
        path: The file.
        largest: Most bytes that are read.
        remedy: What the user can do if it cannot be read, for the message.

    Raises:
        UserError: If it is absent or cannot be read.
    """
    if not path.is_file():  # a pipe is refused too: reading it may never end
        raise UserError(f"{path}: no such file; {remedy}")
    try:
        with path.open("rb") as file:
            return file.read(largest)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; {remedy}") from error
