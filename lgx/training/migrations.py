"""Old spellings of class paths and options: configurations and command lines may use them for one more release."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from lgx.host.safety import read_yaml

_MOVED = (
    (re.compile(r"lgx\.initializers(?:\.\w+)*\.([A-Z]\w*)"), "lgx.methods"),
    (re.compile(r"lgx\.methods\.[a-z]\w*\.([A-Z]\w*)"), "lgx.methods"),
    (re.compile(r"lgx\.optim\.([A-Z]\w*)"), "lgx.components.optim"),
    (re.compile(r"lgx\.callbacks(?:\.\w+)*\.([A-Z]\w*)"), "lgx.training.callbacks"),
)
"""Old path of a class -> the package that exports the class now."""

_CLASSES = {"SearchedExpansion": "SelectedExpansion", "DrawRouting": "DrawFigures", "DrawTaskMap": "DrawFigures"}
"""Old name of a class -> its name now."""

_SOURCES = {
    "StagewiseExpansion": "learngene",
    "LinearExpansion": "learngene",
    "SelectedExpansion": "learngene",
    "HypernetPrediction": "hypernet",
}
"""Initializer -> the old name of its option ``source``."""

_SOURCE = re.compile(r"\binitializer(?:\.init_args)?\.(?:learngene|hypernet)$")
"""Full path of such an option."""

_VALUES = {("repeat", "neighbour"): "neighbor"}
"""Option and its old value -> the value now."""


def migrate(config: Any) -> Any:
    """Replace the old spellings in a configuration, and print one line to stderr for each.

    Args:
        config: Plain values: a configuration of ``lgx fit``, a sweep file, a mapping from option to value, or a value.

    Returns:
        The configuration with the present spellings; the argument is left as it is.
    """
    return _migrated(config, "", None)


def migrate_argv(argv: Sequence[str]) -> list[str]:
    """Replace the old spellings in a command line, and print one line to stderr for each.

    Args:
        argv: The command line of ``lgx fit``, ``test`` or ``plan``. Values that are mappings or lists in YAML are left
            to :func:`migrate`.

    Returns:
        The command line with the present spellings.

    Raises:
        UserError: If a configuration file has to name the initializer's class and cannot be read.
    """
    options = [(word.lstrip("-"), value) for word, value, _ in _words(argv) if value is not None]
    owner = _named_initializer(dict(options))
    if owner is None and any(_SOURCE.search(option) for option, _ in options):
        owner = _initializer_in_files([file for option, file in options if option in ("c", "config")])
    result: list[str] = []
    for word, value, separator in _words(argv):
        if value is None:
            result.append(word)
            continue
        option = _option("", word, owner)
        text = _text(option.removesuffix("+"), value)
        result += [option + separator + text] if separator else [option, text]
    return result


def rename_options(argv: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """Replace old options and values in a command line of a command, and print one line to stderr for each.

    Args:
        argv: The command line, behind the command's name.
        names: Old name of an option -> the name now, both without dashes.

    Returns:
        The command line with the present spellings.
    """
    result: list[str] = []
    for word, value, separator in _words(argv):
        dashes, name = word[: len(word) - len(word.lstrip("-"))], word.lstrip("-")
        present = names.get(name, name) if dashes == "--" else name
        if present != name:
            _report(f"--{name}", f"--{present}")
        option = dashes + present
        if value is None:
            result.append(option)
            continue
        text = _text(present, value)
        result += [option + separator + text] if separator else [option, text]
    return result


def _words(argv: Sequence[str]) -> Iterator[tuple[str, str | None, str]]:
    """The words of a command line: each option with its value and ``=`` where that joins them, other words alone."""
    words = list(argv)
    while words:
        word, separator, value = words.pop(0).partition("=")
        if not word.startswith("-") or word == "--":
            yield word + separator + value, None, ""
        elif separator:
            yield word, value, separator
        elif words and not words[0].startswith("--"):
            yield word, words.pop(0), ""
        else:
            yield word, None, ""


def _migrated(value: Any, path: str, owner: str | None) -> Any:
    """A value with the present spellings.

    Args:
        value: Plain values.
        path: Keys that lead to it, joined by dots.
        owner: Name of the class that the value configures; None where it is not known.
    """
    if isinstance(value, list):
        return [_migrated(inner, path, None) for inner in value]
    if isinstance(value, str):
        return _text(path, value)
    if not isinstance(value, Mapping):
        return value
    owner, initializer = _class_name(value) or owner, _named_initializer(value)
    result = {}
    for key, inner in value.items():
        present = _option(path, key, initializer if "." in key else owner) if isinstance(key, str) else key
        result[present] = _migrated(inner, f"{path}.{key}", owner if key == "init_args" else None)
    return result


def _text(path: str, value: str) -> str:
    """The present spelling of the value of an option."""
    key = path.rpartition(".")[2]
    if (key, value) in _VALUES:
        _report(f"{key} {value}", f"{key} {_VALUES[key, value]}")
        return _VALUES[key, value]
    present = _CLASSES.get(value, value) if key in ("class_path", "initializer") else value
    for pattern, package in _MOVED:
        if found := pattern.fullmatch(value):
            present = f"{package}.{_CLASSES.get(found[1], found[1])}"
            break
    if present != value:
        _report(value, present)
    return present


def _option(path: str, key: str, owner: str | None) -> str:
    """The present name of an option of a class.

    Args:
        path: Keys that lead to the option.
        key: The option: a name, or several joined by dots.
        owner: Name of the class; None where it is not known.
    """
    place, dot, name = key.rpartition(".")
    known = owner is not None and _SOURCES.get(owner) == name
    if not (known and not dot) and not ((known or owner is None) and _SOURCE.search(f"{path}.{key}")):
        return key
    _report(f"option {name} of an initializer", "source")
    return f"{place}{dot}source"


def _named_initializer(options: Mapping[str, Any]) -> str | None:
    """Class of the initializer that a mapping from option to value names; the last one counts."""
    paths = [value for option, value in options.items() if re.search(r"\binitializer(\.class_path)?$", str(option))]
    return next((name for name in map(_class_name, reversed(paths)) if name), None)


def _initializer_in_files(files: Sequence[str]) -> str | None:
    """Class of the initializer that configuration files name; the last one counts."""
    for file in reversed(files):
        config = read_yaml(Path(file), "give a configuration file")
        for key in ("model", "init_args", "initializer"):
            config = config.get(key) if isinstance(config, Mapping) else None
        if (name := _class_name(config)) is not None:
            return name
    return None


def _class_name(value: Any) -> str | None:
    """Present name of the class that a class path, or a mapping with ``class_path``, names."""
    path = value.get("class_path") if isinstance(value, Mapping) else value
    name = path.rpartition(".")[2] if isinstance(path, str) else None
    return _CLASSES.get(name, name) if name else None


@cache
def _report(old: str, present: str) -> None:
    """Print a deprecation, once in a run of the program and on one process only."""
    from lightning.fabric.utilities.rank_zero import rank_zero_only

    sentence = f"deprecated: {old} is {present} now; the next release refuses the old spelling"
    rank_zero_only(print)(sentence, file=sys.stderr)
