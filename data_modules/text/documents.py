"""Plain texts of a user: the files of each split, and the documents in them."""

from collections.abc import Iterator
from pathlib import Path

from data_modules.base import Split
from data_modules.files.tables import each_line
from lgx.errors import UserError
from lgx.host.extras import extra
from lgx.host.files import walk
from lgx.host.safety import error_line, parse_json

SUFFIXES = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz", ".parquet")
_SPLITS: dict[str, Split] = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
_LONGEST = 2**26
"""Largest length of a document in bytes."""


def find_files(root: Path, option: str = "data.root") -> dict[Split, list[Path]]:
    """The files with texts of each split, in order.

    The first part of a path below ``root`` names its split: ``test.jsonl``, ``val/a.txt``, ``train-00000.parquet``.
    Files without such a name are of train, unless other files have that name.

    Raises:
        UserError: If there are none.
    """
    places = [Path(place, name) for place, _, names in walk(root) for name in names] if root.is_dir() else [root]
    found: dict[Split | None, list[Path]] = {}
    for path in sorted(path for path in places if path.name.endswith(SUFFIXES) and path.is_file()):
        first = path.relative_to(root).parts[0] if path != root else ""
        found.setdefault(_SPLITS.get(first.partition(".")[0].partition("-")[0]), []).append(path)
    others = found.pop(None, [])
    splits: dict[Split, list[Path]] = {"train": others, **{split: part for split, part in found.items() if split}}
    if not splits["train"]:
        raise UserError(f"{option}: {root} holds no training texts; expected files {', '.join(SUFFIXES)}")
    return splits


def documents(path: Path, field: str) -> Iterator[str]:
    """The documents of a file that are not empty: parts between empty lines, JSON objects, or rows.

    Args:
        path: The file.
        field: Key or column of the texts in JSON lines and Parquet files.

    Raises:
        UserError: If a part cannot be read; the sentence names file and line, or row.
    """
    read = _rows if path.suffix == ".parquet" else _objects if ".jsonl" in path.suffixes else _parts
    for place, text in read(path, field):
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise UserError(f"{place}: a text with half a surrogate pair; correct it or remove it") from None
        if size > _LONGEST:
            raise UserError(f"{place}: a document of more than {_LONGEST:,} bytes; cut it into several")
        if text.strip():
            yield text


def _parts(path: Path, field: str) -> Iterator[tuple[str, str]]:
    part, size = list[str](), 0
    for number, line in enumerate(each_line(path, _LONGEST), 1):
        size += len(line)
        if line.strip():
            part.append(line)
        if not line.strip() or size > _LONGEST:
            yield f"{path}, line {number}", "\n".join(part)
            part, size = [], 0
    yield str(path), "\n".join(part)


def _objects(path: Path, field: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(each_line(path, _LONGEST), 1):
        if line.strip():
            values = parse_json(line, place := f"{path}, line {number}", "expected one object per line")
            yield place, _text(values.get(field) if isinstance(values, dict) else None, field, place)


def _rows(path: Path, field: str) -> Iterator[tuple[str, str]]:
    with extra("nlp", str(path)):
        import pyarrow.parquet
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            if field not in (columns := file.schema_arrow.names):
                raise UserError(f"{path}: no column {field!r} among {', '.join(columns)[:200]}; set data.text_field")
            for batch in file.iter_batches(1000, columns=[field]):
                for text in batch.column(0).to_pylist():
                    number += 1
                    yield (place := f"{path}, row {number}"), _text(text, field, place)
    except (OSError, ValueError, NotImplementedError) as error:  # those of pyarrow derive from them
        raise UserError(f"{path}: cannot be read ({error_line(error)}); copy it again") from error


def _text(value: object, field: str, place: str) -> str:
    if not isinstance(value, str):
        raise UserError(f"{place}: expected a text under {field!r}; set data.text_field to the field of the texts")
    return value
