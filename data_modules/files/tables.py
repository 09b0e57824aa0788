"""Read the lines of a text file and the rows of a table."""

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from lgx.core.schema import refuse_doubles, shortened
from lgx.errors import UserError


def read_lines(path: Path, most: int | None = None) -> list[str]:
    """Read the lines, at most ``most``, of a UTF-8 file, without their line breaks and byte-order mark.

    Raises:
        UserError: If it cannot be read, is empty or is not UTF-8.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            lines = [line.rstrip("\n") for line in islice(file, most)]
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error})") from error
    if not lines:
        raise UserError(f"{path}: is empty")
    return lines


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
