"""Refuse a misspelt option, key or class in a fraction of a second, by the names that an earlier command has kept.

What is not known for sure is left to jsonargparse, which reads the command line seconds later: all values, and the
options of optimizers, callbacks, loggers, and classes of other packages.
"""

import difflib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import yaml

from lgx.errors import UserError
from lgx.host.cache import recall
from lgx.host.safety import DEEPEST, LONGEST, MOST_OPTIONS, check_yaml, load_plain, read_yaml

_OTHER_WORDS = {
    "learning_rate": "--model.optimizer.lr", "lr": "--model.optimizer.lr", "epochs": "--trainer.max_epochs",
    "batch_size": "--data.batch_size", "seed": "--seed_everything",
}  # fmt: skip
"""Last part of an option that many try -> the right one."""
_NO_NAME = re.compile(r"\.(init_args|dict_kwargs)\b|\+$")


def check_names(command: str, argv: Sequence[str]) -> None:
    """Refuse unknown options, keys and classes, where an earlier command has kept the known ones.

    Args:
        command: The training command.
        argv: The command line without the command.

    Raises:
        UserError: For the first of them, with the most similar names; for a file that cannot be read within bounds.
    """
    # 3 levels: model.init_args.NAME. Deeper keys are options of nested classes, which the parser checks.
    given = [*given_options(argv, 3)]
    kept: dict[str, Any] | None = recall(f"options-{command}")
    if kept is None or kept["lightning"] != version("lightning") or os.environ.get("LGX_ALLOW_IMPORTS"):
        return
    mistake = next(_mistakes(given, kept["options"], kept["classes"]), None)
    if mistake and not entry_points(group="lgx.methods"):  # asked last: it reads the metadata of all packages
        raise UserError(mistake)


def _mistakes(given: Sequence[tuple[str, str, Any]], options: Sequence[str], classes: dict[str, Any]) -> Iterator[str]:
    foreign = tuple(
        f"{name.removesuffix('.class_path')}."
        for _, name, value in given
        if isinstance(value, str) and "." in value and not value.startswith(("lgx.", "data_modules."))
    )
    for place, name, value in given:
        root = name.removesuffix(".class_path")
        if root not in classes:
            if not name.startswith(foreign) and not _is_known(f"--{name}", options):
                yield f"{place}unknown option --{name}{suggest(f'--{name}', options, '--help-all')}"
        elif isinstance(value, str) and value.isidentifier() and value not in {*classes[root], "true", "false", "null"}:
            yield f"{place}{root}: class {value!r} is unknown{suggest(value, classes[root], f'--{root}.help')}"


def suggest(word: str, known: Sequence[str], help: str, prefix: str = "") -> str:
    """The end of a sentence on an unknown word: the most similar known ones, or the option that lists them."""
    last = word.lstrip("-").rpartition(".")[2]
    likely = [_OTHER_WORDS[last]] if last in _OTHER_WORDS else [name for name in known if name.endswith(f".{last}")]
    close = likely[:1] or [f"{prefix}{name}" for name in difflib.get_close_matches(word, known, n=2, cutoff=0.7)]
    close = [name for name in close if name not in (word, f"{prefix}{word}")]  # of another class it is unknown
    return f"; did you mean {' or '.join(close)}?" if close else f"; see {help}"


def _is_known(option: str, options: Sequence[str]) -> bool:
    """Whether an option is listed, is a group of listed options, or belongs to an option that takes a class."""
    if option in options or any(known.startswith(f"{option}.") for known in options):
        return True
    # Below an option that takes a class only .help is listed: its options depend on the class, so all are accepted.
    parents = [option.rsplit(".", depth)[0] for depth in range(1, option.count(".") + 1)]
    below = [known for known in options if not known.endswith(".help")]
    return any(parent in options and not any(k.startswith(f"{parent}.") for k in below) for parent in parents)


def given_options(argv: Sequence[str], depth: int = DEEPEST) -> Iterator[tuple[str, str, Any]]:
    """The options of a command line and of its files: file, if any; name without dashes and ``init_args``; value.

    Args:
        argv: The command line without the command.
        depth: Levels of keys to go through in files, and in values that are mappings.

    Raises:
        UserError: If a file cannot be read within bounds, or holds no mapping.
    """
    words = list(argv)
    while words and (word := words.pop(0)) != "--":
        option, equals, value = word.partition("=")
        if not equals and words and not words[0].startswith(("--", "-c")):  # a flag has no value
            value = words.pop(0)
        name, place, content = "", "", None
        if option.startswith("--") and option != "--config":
            name = _NO_NAME.sub("", option[2:].replace("-", "_"))
            yield place, name, value
        is_file = name in ("model", "data") and value.endswith((".yaml", ".yml")) and os.path.isfile(value)
        if is_file or (option in ("-c", "--config") and value):
            place, content = f"{value}: ", read_yaml(Path(value), "give a configuration file", MOST_OPTIONS, LONGEST)
            if not isinstance(content, dict):
                raise UserError(f"{value}: holds no mapping from keys to values; give a configuration file")
        elif name and value.startswith("{"):
            with suppress(yaml.YAMLError, ValueError, RecursionError):  # which the parser reports
                check_yaml(value, MOST_OPTIONS, LONGEST)
                content = load_plain(value)
        if isinstance(content, dict):
            for key, inner in _nested(content, depth, name and f"{name}."):
                yield place, _NO_NAME.sub("", key), inner


def _nested(content: dict[Any, Any], depth: int, above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if not _NO_NAME.fullmatch(f".{key}"):
            yield f"{above}{key}", value
        if isinstance(value, dict) and depth > 1:
            yield from _nested(value, depth - 1, f"{above}{key}.")
