"""Read the lines of a text file, and the rows of a table, whatever the file holds."""

import csv
import errno
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from lgx.errors import UserError

LONGEST_LINE = 2**20
"""Largest length of a line in bytes. The longest review has 14 thousand; this would take minutes to tokenize."""

MOST_LINES = 2_000_000
"""Most lines of a file: the sets of this package have at most 400 thousand; each takes some 500 bytes in memory."""


def read_lines(path: Path, most: int | None = None) -> list[str]:
    """Read the lines of a UTF-8 file, without their line breaks; the last line may have none.

    Args:
        path: The file; a byte-order mark is not part of the text.
        most: Largest number of lines to read.

    Raises:
        UserError: If it cannot be read, is empty, is not UTF-8, has a line longer than :data:`LONGEST_LINE`, or more
            lines than :data:`MOST_LINES`.
    """
    try:
        if not path.is_file():  # opening a pipe would wait forever
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        with path.open("rb") as file:
            lines = list(islice(_decoded(path, iter(lambda: file.readline(LONGEST_LINE + 1), b"")), most))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    if not lines:
        raise UserError(f"{path}: is empty")
    return lines


def table_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line and cells, without blanks around them, of each row of a CSV file that is not empty.

    Args:
        path: The file, UTF-8.

    Raises:
        UserError: If it cannot be read.
    """
    reader = csv.reader(read_lines(path))
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield reader.line_num, [cell.strip() for cell in row]
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}; separate the cells by commas") from error


def _decoded(path: Path, lines: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if number > MOST_LINES:
            raise UserError(f"{path}: more than {MOST_LINES:,} lines; cut it into several sets")
        if len(line) > LONGEST_LINE:
            raise UserError(f"{path}, line {number}: more than {LONGEST_LINE:,} bytes; is a line break missing?")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise UserError(f"{path}, line {number}: not UTF-8 text ({error.reason})") from error
