"""Refuse misspelt options and keys by their names alone, before anything heavy is imported."""

import difflib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lgx.errors import UserError
from lgx.host.cache import declared_methods, recall
from lgx.host.safety import LONGEST, MOST_OPTIONS, read_yaml

_OTHER_WORDS = {"learning_rate": "model.optimizer.lr", "lr": "model.optimizer.lr", "epochs": "trainer.max_epochs"}
"""Last part of an option that many try -> the right one."""


def check_names(command: str, argv: Sequence[str]) -> None:
    """Refuse unknown options, keys and classes, if an earlier run of the command has kept the known ones.

    What is not known for sure is left to the parser: classes of other packages, the options of optimizers, callbacks
    and strategies, and all values.

    Args:
        command: The training command.
        argv: The command line without the command.

    Raises:
        UserError: For the first of them, with the most similar names; for a file that cannot be read within bounds.
    """
    names = [*_given(argv)]  # first: here alone files are read within bounds, also where nothing can be kept
    kept: dict[str, Any] | None = recall(f"options-{command}")
    if kept is None:
        return
    options, classes = kept["options"], kept["classes"]
    unchecked = {*classes} if os.environ.get("LGX_ALLOW_IMPORTS") or declared_methods() else set[str]()
    # Classes first: one of another package decides that its options are not checked.
    for place, name, value in sorted(names, key=lambda given: given[1].removesuffix(".class_path") not in classes):
        root = name.removesuffix(".class_path")
        if root in classes and isinstance(value, str) and value not in ("true", "false", "null"):
            if value.isidentifier() and value not in classes[root] and root not in unchecked:
                raise UserError(f"{place}{root}: class {value!r} is unknown{suggest(value, classes[root])}")
            if not value.isidentifier() and not value.startswith(("lgx.", "data_modules.")):
                unchecked.add(root)
        elif root not in classes and not name.startswith(tuple(unchecked)) and not _is_known(name, options):
            raise UserError(f"{place}{unknown_option(f'--{name}', options)}")


def unknown_option(option: str, options: Sequence[str], help: str = "--help-all") -> str:
    """The sentence on an option that a command does not have.

    Args:
        option: The option with its dashes.
        options: All options of the command, with their dashes.
        help: The option that lists them.
    """
    name = option.partition("=")[0]
    last = name.rpartition(".")[2]
    alike = [known for known in options if "." in known and known.rpartition(".")[2] == last]
    likely = [f"--{_OTHER_WORDS[last]}"] if last in _OTHER_WORDS else alike[:1]
    return f"unknown option {name}{suggest(name, options, help, likely)}"


def suggest(word: str, known: Sequence[str], help: str = "--help-all", likely: Sequence[str] = ()) -> str:
    """The end of a sentence on an unknown word: similar known words, or the option that lists them."""
    close = likely or difflib.get_close_matches(word, known, n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(close)}?" if close else f"; see {help}"


def _is_known(name: str, options: Sequence[str]) -> bool:
    """Whether an option is listed, is a group of listed options, or belongs to an option that takes a class."""
    option = f"--{name}"
    if option in options or any(known.startswith(f"{option}.") for known in options):
        return True
    # Below an option that takes a class only .help is listed: its options depend on the class, so all are accepted.
    parents = [option.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1)]
    below = [known for known in options if not known.endswith(".help")]
    return any(parent in options and not any(k.startswith(f"{parent}.") for k in below) for parent in parents)


def _given(argv: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
    """The options of a command line and of its files: file, if any; name without dashes; value."""
    words = list(argv)
    while words and (word := words.pop(0)) != "--":
        option, equals, value = word.partition("=")
        if not equals and words and not words[0].startswith(("--", "-c")):  # a flag has no value
            value = words.pop(0)
        if option in ("-c", "--config") and value:
            content = read_yaml(Path(value), "give a configuration file", MOST_OPTIONS, LONGEST)
            if not isinstance(content, dict):
                raise UserError(f"{value}: holds no mapping from keys to values; give a configuration file")
            # 3 levels: model.init_args.NAME. Deeper keys are options of nested classes, which the parser checks.
            yield from ((f"{value}: ", _plain(name), inner) for name, inner in _nested(content, 3))
        elif option.startswith("--"):
            yield "", _plain(option[2:].replace("-", "_")), value


def _nested(content: dict[Any, Any], depth: int, above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        yield f"{above}{key}", value
        if isinstance(value, dict) and depth > 1:
            yield from _nested(value, depth - 1, f"{above}{key}.")


def _plain(name: str) -> str:
    return re.sub(r"\.init_args\b", "", name).removesuffix("+")
