"""Read the lines of a text file and the rows of a table, with limits for foreign files."""

import csv
import errno
import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from math import inf
from pathlib import Path

from lgx.core.schema import refuse_doubles, shortened
from lgx.errors import UserError

LONGEST_LINE = 2**20
"""Largest length of a line in bytes. The longest review has 14 thousand; this would take minutes to tokenize."""

MOST_LINES = 2_000_000
"""Most lines of a file: the sets of this package have at most 400 thousand; each takes some 500 bytes in memory."""


def read_lines(path: Path, most: int | None = None) -> list[str]:
    """Read the lines, at most ``most``, of a UTF-8 file, without their line breaks and byte-order mark.

    Raises:
        UserError: If it cannot be read, is empty, is not UTF-8, has a line longer than :data:`LONGEST_LINE`, or more
            lines than :data:`MOST_LINES`.
    """
    lines = list(islice(each_line(path, LONGEST_LINE, MOST_LINES), most))
    if not lines:
        raise UserError(f"{path}: is empty")
    return lines


def each_line(path: Path, longest: int, most: float = inf) -> Iterator[str]:
    """Like :func:`read_lines`, line by line, of ``most`` lines of ``longest`` bytes; gzip may have compressed the file.

    Raises:
        UserError: See :func:`read_lines`.
    """
    try:
        if not path.is_file():  # opening a pipe would wait forever
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(longest + 1), b""), 1):
                if number > most:
                    raise UserError(f"{path}: more than {most:,} lines; cut it into several sets")
                if len(line) > longest:
                    raise UserError(f"{path}, line {number}: more than {longest:,} bytes; is a line break missing?")
                yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}, line {number}: not UTF-8 text ({error.reason})") from error
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: {getattr(error, 'strerror', '') or error}") from error


def table_rows(path: Path, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Line and cells, without blanks around them, of each row of a UTF-8 CSV file that is not empty.

    Raises:
        UserError: If it cannot be read.
    """
    reader = csv.reader(read_lines(path), delimiter=delimiter)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield reader.line_num, [cell.strip() for cell in row]
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}; separate the cells by commas") from error


def table_records(path: Path, wanted: Sequence[str], delimiter: str = ",") -> Iterator[tuple[int, dict[str, str]]]:
    """Line and cells by column of each row below the header of a CSV file; cells that a row lacks are empty.

    Raises:
        UserError: If it cannot be read, lacks a column of ``wanted``, or has two columns of one name.
    """
    rows = table_rows(path, delimiter)
    line, header = next(rows, (1, []))
    refuse_doubles(header, f"{path}, line {line}")
    if not set(wanted) <= set(header):
        found = shortened(",".join(header))
        raise UserError(f"{path}, line {line}: the header is {found}; expected {','.join(wanted)}")
    yield from ((line, dict.fromkeys(header, "") | dict(zip(header, row, strict=False))) for line, row in rows)
