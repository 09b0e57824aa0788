"""Read the lines of a text file, the rows of a table, and annotations in COCO's format."""

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from data_modules.files.errors import guarded
from lgx.core.schema import refuse_doubles, shortened
from lgx.errors import UserError
from lgx.host.failures import blame
from lgx.host.safety import read_json


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


def table_records(path: Path, wanted: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Line and cells by column, without blanks around them, of each row below the header of a UTF-8 CSV file.

    Rows of empty cells are left out.

    Raises:
        UserError: If it cannot be read, lacks a column of ``wanted``, has two columns of one name, or a row has another
            number of cells.
    """
    reader = csv.reader(read_lines(path))
    with blame(f"{path}: not a table of cells that are separated by commas"):
        header = [name.strip() for name in next(reader)]
        refuse_doubles(header, f"{path}, line 1")
        if not set(wanted) <= set(header):
            shown = shortened(",".join(header))
            raise UserError(f"{path}, line 1: the header is {shown}; expected {','.join(wanted)}")
        for row in (cells for cells in reader if any(map(str.strip, cells))):
            if len(row) != len(header):
                names = ", ".join(header)[:200]
                raise UserError(f"{path}, line {reader.line_num}: {len(row)} cells, expected {len(header)} ({names})")
            yield reader.line_num, dict(zip(header, map(str.strip, row), strict=True))


def read_annotations(path: Path, num_classes: int, remedy: str) -> tuple[list[str], list[int]]:
    """Names and class indices of the images of a file in COCO's format, classes in the order of their numbers.

    Raises:
        UserError: If it cannot be read, has another number of classes, or not one class for each image.
    """
    content = read_json(path, remedy)

    def pairs() -> list[tuple[str, int]]:
        index = {category: k for k, category in enumerate(sorted({each["id"] for each in content["categories"]}))}
        if len(index) != num_classes:
            raise UserError(f"{path}: has {len(index):,} categories, expected {num_classes:,}; {remedy}")
        category = {each["image_id"]: index[each["category_id"]] for each in content["annotations"]}
        names = {each["id"]: each["file_name"] for each in content["images"]}
        if names.keys() != category.keys() or len(content["annotations"]) != len(names):
            count = len(content["annotations"])
            raise UserError(f"{path}: {count:,} labels for {len(names):,} images, expected one each; {remedy}")
        return [(name, category[image]) for image, name in names.items()]

    read = guarded(pairs, str(path), remedy)
    return [name for name, _ in read], [label for _, label in read]
