"""Rows of text files and of sets on the hub, read by Hugging Face datasets."""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from data_modules.base import Split
from lgx.core.schema import shortened
from lgx.errors import UserError
from lgx.host.cache import cache_root
from lgx.host.extras import extra
from lgx.host.failures import foreign_errors
from lgx.host.files import walk
from lgx.host.safety import error_line

_READERS: dict[str, tuple[str, dict[str, Any]]] = {
    ".txt": ("text", {"sample_by": "paragraph"}),
    ".jsonl": ("json", {}),
    ".json": ("json", {}),
    ".parquet": ("parquet", {}),
    ".csv": ("csv", {"keep_default_na": False}),  # "NA" and "null" are texts
    ".tsv": ("csv", {"keep_default_na": False, "sep": "\t"}),
}
"""Suffix of a file -> builder of datasets, and its options."""
SUFFIXES = ", ".join(_READERS)
_NAMES: dict[str, Split] = {"test": "test", "validation": "val", "train": "train"}
"""Names of splits in datasets; the first one that a path has counts."""


def library() -> Any:
    """The package datasets, which prints progress to a terminal only."""
    with extra("nlp", "texts"):
        import datasets
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    return datasets


def suffix_of(path: Path) -> str:
    """The suffix of a file, without that of its compression."""
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix


def split_files(root: Path, option: str = "data.root") -> dict[Split, list[Path]]:
    """The files of each split, in order: ``test.csv``, ``dev/a.txt``, ``train-00000-of-00002.parquet``.

    A word in a path names its split, in any case: those of datasets (train, training; validation, valid, dev, val;
    test, testing, eval, evaluation). If no file is named train, all files without such a word are of train, otherwise
    a line names them.

    Args:
        root: Folder with files, at any depth, or one file.
        option: The option that names it, for messages.

    Raises:
        UserError: If there is no training file.
    """
    if not root.exists():
        raise UserError(f"{option}: {root} does not exist; give a folder with texts, or a file")
    library()
    from datasets.data_files import NON_WORDS_CHARS, SPLIT_KEYWORDS

    border = f"[{re.escape(NON_WORDS_CHARS[:3])}0-9 /]"
    words = {str(split): "|".join(names) for split, names in SPLIT_KEYWORDS.items()}
    patterns = {_NAMES[name]: rf"(^|{border})({words[name]})({border}|$)" for name in _NAMES}
    paths = [Path(place, name) for place, _, names in walk(root) for name in names] if root.is_dir() else [root]
    splits: dict[Split | None, list[Path]] = {}
    for path in sorted(path for path in paths if suffix_of(path) in _READERS and path.is_file()):
        name = (path.relative_to(root).as_posix() if path != root else path.name).lower()
        splits.setdefault(next((s for s, pattern in patterns.items() if re.search(pattern, name)), None), []).append(
            path
        )
    others = splits.pop(None, [])
    if others and "train" in splits:
        names = ", ".join(path.name for path in others[:5])
        print(f"files      of no split, left out: {names}{', …' if len(others) > 5 else ''}")
    files: dict[Split, list[Path]] = {"train": others, **{split: part for split, part in splits.items() if split}}
    if not files["train"] and splits:
        raise UserError(f"{option}: {root}: all names of files say {' or '.join(map(str, splits))}; name one train")
    if not files["train"]:
        raise UserError(f"{option}: {root} has no training texts; expected files that end in {SUFFIXES}, .gz too")
    return files


def read_files(files: Sequence[Path], columns: Sequence[str], suffix: str | None = None, **options: Any) -> Any:
    """Read files as a data set of the package datasets, which is mapped into memory from lgx's cache.

    Args:
        files: Files of one or several formats; a part between empty lines of a ``.txt`` file is a row.
        columns: The columns that are read, of tables as texts.
        suffix: The suffix of their format; by default each file's own.
        options: Further options of the reader.

    Raises:
        UserError: If a file cannot be read or lacks a column; the sentence names it.
    """
    absent = next((path for path in files if not path.exists()), None)
    if absent:
        raise UserError(f"{absent}: does not exist")
    wrong = next((path for path in files if (suffix or suffix_of(path)) not in _READERS), None)
    if wrong:
        raise UserError(f"{wrong}: is no file with texts; expected a name that ends in {SUFFIXES}, .gz too")
    parts = []
    for form in sorted({suffix or suffix_of(path) for path in files}):
        names = [str(path) for path in files if (suffix or suffix_of(path)) == form]
        place, (builder, fixed) = ", ".join(names[:3]), _READERS[form]
        texts = {"converters": dict.fromkeys(columns, str)} if builder == "csv" else {}
        folder = str(cache_root() / "texts")
        arguments = {**fixed, **texts, **options}
        try:
            rows = library().load_dataset(builder, data_files=names, split="train", cache_dir=folder, **arguments)
            rows.data.table.validate(full=True)  # texts that are not UTF-8
        except MemoryError:
            raise
        except Exception as error:  # readers raise errors of many kinds, within an error of datasets
            cause = error.__cause__
            reason = error_line(cause if isinstance(cause, Exception) else error)
            name = getattr(error, "filename", "")
            if "corresponds to no data" in reason or "SchemaInferenceError" in reason:
                raise UserError(f"{place}: has no rows; remove the file, or copy it again") from error
            if str(name).startswith(folder):
                raise UserError(f"cannot write {name}: {reason}; set LGX_CACHE to a folder with more space") from error
            remedy = f"correct the file or copy it again; if it is intact, remove {folder}"
            raise UserError(f"{place}: cannot be read ({reason}); {remedy}") from error
        lacking = [column for column in columns if column not in rows.column_names]
        if lacking:
            raise UserError(f"{place}: no column {lacking[0]!r} among {', '.join(rows.column_names)[:200]}")
        if form == ".tsv":
            _refuse_open_quotes(rows, columns, place)
        parts.append(rows.select_columns(list(columns)))
    return library().concatenate_datasets(parts)


def _refuse_open_quotes(rows: Any, columns: Sequence[str], place: str) -> None:
    """Refuse cells that contain further rows, because a quotation mark begins a cell and none ends it."""
    from pyarrow.compute import match_substring_regex

    for column in columns:
        cells = rows.data.column(column)
        wrong = cells.filter(match_substring_regex(cells, r"(?s)\t.*\n|\n.*\t"))
        if len(wrong):
            raise UserError(
                f"{place}: the cell that begins with {shortened(wrong[0].as_py())} contains further rows; double the "
                f"quotation marks in it and put it in quotation marks, or remove its first one"
            )


def read_texts(files: Sequence[Path], columns: Sequence[str]) -> tuple[Sequence[str], Any]:
    """Read texts: the rows of tables, or each line of ``.txt`` files, whose column is called ``text``.

    Returns:
        The columns, and the rows as a data set of the package datasets.
    """
    are_lines = [suffix_of(path) == ".txt" for path in files]
    if len({*are_lines}) > 1:
        raise UserError(f"{files[are_lines.index(True)]}: has a text in each line; give it and the tables one by one")
    if are_lines[0]:
        return ["text"], read_files(files, ["text"], sample_by="line")
    return columns, read_files(files, columns)


def read_hub(name: str, config: str | None, split: str) -> Any:
    """Read a split of a set on the Hugging Face hub, or from its cache.

    Raises:
        UserError: If the set cannot be loaded.
    """
    remedy = "use data.source files, which reads the publishers' files below data.root"
    place = f"{name}{f' ({config})' if config else ''} {split}"
    datasets = library()
    with foreign_errors(place, "could not be loaded from the Hugging Face hub", remedy):
        return datasets.load_dataset(name, config, split=split)


def labeled(rows: Any, columns: Sequence[str], label: str, classes: Mapping[str, int], place: str) -> Any:
    """Rows with the columns ``text``, of pairs ``text_pair``, and ``label``.

    Args:
        rows: A data set of the package datasets.
        columns: One column with texts, or the two of pairs.
        label: Column with labels.
        classes: Value of that column, as text -> class index.
        place: The files, for messages.

    Raises:
        UserError: If a row has no text, or its label is unknown.
    """
    texts = {key: list(rows[column]) for key, column in zip(("text", "text_pair"), columns, strict=False)}
    for column, values in zip(columns, texts.values(), strict=True):
        wrong = next((row for row, text in enumerate(values, 1) if not isinstance(text, str)), None)
        if wrong is not None:
            raise UserError(f"{place}, row {wrong}: has no text in column {column!r}; correct the row or remove it")
    values = [str(value) for value in rows[label]]
    wrong = next((row for row, value in enumerate(values, 1) if value not in classes), None)
    if wrong is not None:
        expected = " or ".join(classes)[:200]
        raise UserError(f"{place}, row {wrong}: label {shortened(values[wrong - 1])}, expected {expected}")
    return library().Dataset.from_dict({**texts, "label": [classes[value] for value in values]})
