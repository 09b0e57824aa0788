"""Rows of labeled texts, read from the publishers' own files or from the Hugging Face hub."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lightning.pytorch.utilities.rank_zero import rank_zero_info

from data_modules.files.tables import LONGEST_LINE, read_lines
from lgx.core.schema import refuse_doubles, shortened
from lgx.errors import UserError
from lgx.host.extras import extra
from lgx.host.hub import hub_or_cache
from lgx.host.safety import parse_json

_HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair. JSON can contain it alone, but tokenizers refuse it."""


class Row(NamedTuple):
    """One example: one text or the two of a pair, and its class index.

    ``path`` and ``line`` are its file and its line there, from 1, or its set and its row on the hub, from 0.
    """

    texts: tuple[str, ...]
    label: int
    path: str
    line: int

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.path}, line {self.line}"


def read_table(
    path: Path,
    texts: Sequence[str],
    label: str,
    labels: Mapping[str, int],
    header: Sequence[str] | None = None,
    skips_broken: bool = False,
) -> list[Row]:
    """Read a file of tab-separated columns; quotation marks are text.

    Args:
        path: The file, UTF-8.
        texts: Names of the columns with texts.
        label: Name of the column with labels.
        labels: Value of that column -> class index.
        header: Names of all columns of a file without a header line; None reads them from its first line.
        skips_broken: Whether lines with another number of columns are left out; their number is printed.

    Raises:
        UserError: If the file cannot be read, lacks a column, or has a malformed row; the sentence names file and line.
    """
    lines = read_lines(path)
    first = 1
    if header is None:
        header, lines, first = lines[0].split("\t") if lines else [], lines[1:], 2
        refuse_doubles(header, f"{path}, line 1")
        for column in (*texts, label):
            if column not in header:
                raise UserError(f"{path}, line 1: no column {column!r} among {', '.join(header)[:200] or 'none'}")
    at_texts, at_label = [header.index(column) for column in texts], header.index(label)
    rows, broken = [], 0
    for number, line in enumerate(lines, first):
        fields = line.split("\t")
        if len(fields) != len(header) and skips_broken:
            broken += 1
            continue
        if len(fields) != len(header):
            raise UserError(
                f"{path}, line {number}: {len(fields)} columns, expected {len(header)} ({', '.join(header)[:200]}), "
                f"separated by single tabs"
            )
        if fields[at_label] not in labels:
            raise UserError(
                f"{path}, line {number}: label {shortened(fields[at_label])}, expected {' or '.join(labels)}"
            )
        rows.append(_row([fields[k] for k in at_texts], labels[fields[at_label]], str(path), number))
    if broken:
        rank_zero_info(f"{path}: {broken:,} of {len(lines):,} lines are incomplete rows and were left out")
    return rows


def has_column(path: Path, column: str) -> bool:
    """Whether the header line of a file of tab-separated columns has a column."""
    return path.is_file() and column in read_lines(path, 1)[0].split("\t")


def read_json_lines(path: Path, text: str, label: str, classes: int) -> list[Row]:
    """Read a file with one JSON object per line.

    Raises:
        UserError: If the file cannot be read or has a malformed line; the sentence names file and line.
    """
    rows = []
    for number, line in enumerate(read_lines(path), 1):
        values = parse_json(line, f"{path}, line {number}", "expected one object per line")
        if not isinstance(values, dict) or not isinstance(values.get(text), str):
            raise UserError(f"{path}, line {number}: expected an object with the keys {text!r} and {label!r}")
        if values.get(label) not in range(classes) or isinstance(values[label], bool):
            raise UserError(
                f"{path}, line {number}: {label} {shortened(values.get(label))}, expected 0 to {classes - 1}"
            )
        rows.append(_row([values[text]], values[label], str(path), number))
    return rows


def read_folders(folder: Path, classes: Sequence[str]) -> list[Row]:
    """Read ``folder/<class>/*.txt``, one text per file.

    Raises:
        UserError: If a class folder is missing or empty, or a file cannot be read or is empty.
    """
    rows = []
    for label, name in enumerate(classes):
        files = sorted((folder / name).glob("*.txt"))
        if not files:
            raise UserError(f"{folder / name}: holds no *.txt file")
        rows += [_row([" ".join(read_lines(file))], label, str(file), 1) for file in files]
    return rows


def read_hub(name: str, config: str | None, split: str, texts: Sequence[str], label: str, classes: int) -> list[Row]:
    """Read a split from the Hugging Face hub, or from its cache.

    Raises:
        UserError: If ``datasets`` is not installed, the set cannot be loaded, or lacks a column.
    """
    where = f"{name}{f' ({config})' if config else ''} {split}"
    with extra("nlp", "data.source hub"):
        import datasets
    remedy = "use data.source files, which reads the publishers' files below data.root"
    try:
        with hub_or_cache(where, remedy):
            found = datasets.load_dataset(name, config, split=split)
    except UserError:
        raise
    except Exception as error:  # the network, the cache and the files of the hub raise many kinds
        reason = " ".join(str(error).split())[:160]
        raise UserError(
            f"{where}: could not be loaded from the Hugging Face hub ({reason}); check the network, or use data.source "
            f"files"
        ) from error
    for column in (*texts, label):
        if column not in found.column_names:
            raise UserError(f"{where}: no column {column!r} among {', '.join(found.column_names)}")
    rows = []
    for number, values in enumerate(found):
        if values[label] not in range(classes):
            raise UserError(f"{where}, line {number}: {label} {values[label]!r}, expected 0 to {classes - 1}")
        rows.append(_row([values[column] for column in texts], values[label], where, number))
    return rows


def _row(texts: Sequence[str], label: int, path: str, line: int) -> Row:
    row = Row(tuple(text.strip() for text in texts), label, path, line)
    if not all(row.texts):
        raise UserError(f"{row.place}: an empty sentence; remove the row or fill it in")
    for text in row.texts:
        if len(text) > LONGEST_LINE or _HALF.search(text):
            what = "half a surrogate pair" if _HALF.search(text) else f"more than {LONGEST_LINE:,} characters"
            raise UserError(f"{row.place}: a text with {what}; correct the row or remove it")
    return row
