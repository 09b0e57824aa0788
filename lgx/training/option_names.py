"""Refuse misspelt options and keys by their names alone, before anything heavy is imported."""

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lgx.errors import UserError
from lgx.host.cache import declared_methods, recall
from lgx.host.safety import LONGEST, MOST_OPTIONS, read_yaml

_ELSEWHERE = {
    "learning_rate": "--model.optimizer.lr", "lr": "--model.optimizer.lr",
    "weight_decay": "--model.optimizer.weight_decay", "epochs": "--trainer.max_epochs",
    "max_epochs": "--trainer.max_epochs", "batch_size": "--data.batch_size", "img_size": "--data.img_size",
}  # fmt: skip
"""Option that many give to the method -> the right one."""


def check_names(command: str, argv: Sequence[str]) -> None:
    """Refuse unknown options, keys and classes, if an earlier run of the command has kept the known ones.

    What is not known for sure is left to the parser: classes of other packages, the options of optimizers, callbacks
    and strategies, and all values.

    Args:
        command: The training command.
        argv: The command line without the command.

    Raises:
        UserError: For the first of them, with the most similar names.
    """
    kept: dict[str, Any] | None = recall(f"options-{command}")
    if kept is None:
        return
    options, chosen = kept["options"], dict[str, str]()
    for place, name, value in _given(argv):
        root, _, rest = name.partition(".")
        if root in kept["classes"]:
            known, argument = kept["classes"][root], rest.removeprefix("init_args.").partition(".")[0]
            if rest in ("", "class_path") and isinstance(value, str):
                others = os.environ.get("LGX_ALLOW_IMPORTS") or declared_methods()
                if value.isidentifier() and value not in known and not others:
                    raise UserError(f"{place}{root}: class {value!r} is unknown{suggest(value, known)}")
                own = value.isidentifier() or value.startswith(("lgx.", "data_modules."))
                chosen[root] = value.rpartition(".")[2] if own else ""
            elif rest and (of := known.get(chosen.get(root, ""))) is not None:
                if argument not in (*of, "class_path", "init_args", "dict_kwargs", "help"):
                    raise UserError(f"{place}{root}: {no_option_of(argument, chosen[root], of, root)}")
        elif not _is_known(name, options):
            raise UserError(f"{place}{unknown_option(f'--{name}', options)}")


def unknown_option(shown: str, options: Sequence[str], help: str = "--help-all") -> str:
    """The sentence on an option of the command line that no command has.

    Args:
        shown: The option, perhaps with its value.
        options: All options of the command.
        help: The option that lists them.
    """
    close = difflib.get_close_matches(shown.replace("=", " ").split(" ")[0], options, n=2, cutoff=0.8)
    return f"unknown option {shown}; " + (f"did you mean {' or '.join(close)}?" if close else f"see {help}")


def no_option_of(name: str, owner: str, known: Sequence[str], root: str, help: str = "--help-all") -> str:
    """The sentence on an argument that a class does not have.

    Args:
        name: The argument.
        owner: Name of the class.
        known: Its arguments.
        root: Option that names the class, ``model`` or ``data``.
        help: The option that lists all options.
    """
    elsewhere = f"; it is {_ELSEWHERE[name]}" if root == "model" and name in _ELSEWHERE else None
    return f"unknown option {name!r} of {owner}{elsewhere or suggest(name, known, help)}"


def suggest(word: str, known: Sequence[str] | Mapping[str, Any], help: str = "--help-all") -> str:
    """The end of a sentence on an unknown word: similar known words, or all of them, or the option that lists them."""
    if close := difflib.get_close_matches(word, known, n=2):
        return f"; did you mean {' or '.join(close)}?"
    return f"; known are {', '.join(sorted(known))}" if known else f"; see {help}"


def _is_known(name: str, options: Sequence[str]) -> bool:
    if {f"--{name}", f"--{name.replace('-', '_')}"} & {*options}:
        return True
    below = [option for option in options if not option.endswith((".help", "+"))]
    if any(option.startswith(f"--{name}.") for option in below):
        return True  # a group of options
    # The options of a class are known once the class is; a group has no others.
    parents = ["--" + name.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1)]
    return any(parent in options and not any(o.startswith(f"{parent}.") for o in below) for parent in parents)


def _given(argv: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
    """The options of a command line and of its files: file, if any; name without dashes; value."""
    words = list(argv)
    while words and (word := words.pop(0)) != "--":
        option, equals, value = word.partition("=")
        if not equals and words and not words[0].startswith("--"):
            value = words.pop(0)
        if option in ("-c", "--config") and value:
            yield from _of_file(value)
        elif option.startswith("--"):
            yield "", option[2:].removesuffix("+"), value


def _of_file(file: str) -> Iterator[tuple[str, str, Any]]:
    content = read_yaml(Path(file), "give a configuration file", MOST_OPTIONS, LONGEST)
    for key, value in content.items() if isinstance(content, dict) else ():
        yield f"{file}: ", str(key).removesuffix("+"), value
        for inner, below in value.items() if isinstance(value, dict) else ():
            yield f"{file}: ", f"{key}.{inner}".removesuffix("+"), below
            for argument in below if inner == "init_args" and isinstance(below, dict) else ():
                yield f"{file}: ", f"{key}.{inner}.{argument}".removesuffix("+"), None
