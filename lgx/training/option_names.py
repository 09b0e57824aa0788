"""Refuse misspelt options and keys by their names alone, before anything heavy is imported."""

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from lgx.errors import UserError
from lgx.host.cache import declared_methods, recall, remember
from lgx.host.safety import LONGEST, MOST_OPTIONS, read_yaml

_ELSEWHERE = {
    "learning_rate": "--model.optimizer.lr", "lr": "--model.optimizer.lr",
    "weight_decay": "--model.optimizer.weight_decay", "epochs": "--trainer.max_epochs",
    "max_epochs": "--trainer.max_epochs", "batch_size": "--data.batch_size", "img_size": "--data.img_size",
}  # fmt: skip
"""Option that many give to the method -> the right one."""
_OF_ANY_CLASS = {"class_path", "init_args", "dict_kwargs", "help"}


@dataclass(frozen=True)
class OptionNames:
    """Names of the options of a training command.

    Attributes:
        options: With dashes, e.g. ``--trainer.max_epochs``.
        groups: Options that only have further options, e.g. ``--trainer``.
        classes: ``model`` and ``data`` -> name of a class of lgx -> names of its arguments.
    """

    options: list[str]
    groups: list[str]
    classes: dict[str, dict[str, list[str]]]

    @classmethod
    def recall(cls, command: str) -> Self | None:
        """The names that an earlier run of the command has kept; None where there was none since the last change."""
        found = recall(f"options-{command}")
        return None if found is None else cls(**found)

    def keep(self, command: str) -> None:
        """Keep the names for later runs of a command."""
        remember(f"options-{command}", asdict(self))

    def check(self, argv: Sequence[str]) -> None:
        """Refuse unknown options and keys.

        What is not known for sure is left to the parser: classes of other packages and those that a file outside the
        command line names, options of optimizers, callbacks and strategies, and all values.

        Args:
            argv: The command line without the command.

        Raises:
            UserError: For the first of them, with the most similar names.
        """
        chosen: dict[str, str] = {}
        for option, value, shown in _options(argv):
            if option in ("-c", "--config") and value is not None:
                self._check_file(value, chosen)
                continue
            root, _, rest = option.removeprefix("--").removesuffix("+").partition(".")
            if root in self.classes and (not rest or rest == "class_path") and value is not None:
                self._choose(root, value, chosen)
            elif root in self.classes and rest:
                self._check_argument(root, rest.removeprefix("init_args."), chosen)
            elif not self._is_known(option):
                raise UserError(unknown_option(shown, self.options))

    def _is_known(self, option: str) -> bool:
        plain = option.removesuffix("+")
        flag = plain.replace("-", "_").replace("__", "--", 1)
        if {option, plain, flag} & {*self.options, *self.groups}:
            return True
        parent = plain
        while "." in parent:  # the options of a class are known once the class is
            parent = parent.rpartition(".")[0]
            if parent in self.options:
                return parent not in self.groups
        return False

    def _check_file(self, file: str, chosen: dict[str, str]) -> None:
        content = read_yaml(Path(file), "give a configuration file", MOST_OPTIONS, LONGEST)
        for key, value in content.items() if isinstance(content, Mapping) else ():
            if not isinstance(key, str) or "." in key:
                continue
            name = key.removesuffix("+")
            if name in self.classes:
                self._check_class(name, value, chosen)
            elif not self._is_known(f"--{name}"):
                raise UserError(f"{file}: {unknown_key(name, self.options)}")
            elif f"--{name}" in self.groups and isinstance(value, Mapping):
                for inner in value:
                    if isinstance(inner, str) and not self._is_known(f"--{name}.{inner}"):
                        raise UserError(f"{file}: {unknown_key(f'{name}.{inner}', self.options)}")

    def _check_class(self, root: str, value: Any, chosen: dict[str, str]) -> None:
        """Check what a file says of a class: its name, or a mapping with the name and arguments."""
        if isinstance(value, str):
            self._choose(root, value, chosen)
        elif isinstance(value, Mapping):
            if isinstance(path := value.get("class_path"), str):
                self._choose(root, path, chosen)
            arguments = value.get("init_args")
            for name in arguments if isinstance(arguments, Mapping) else ():
                if isinstance(name, str):
                    self._check_argument(root, name, chosen)

    def _choose(self, root: str, path: str, chosen: dict[str, str]) -> None:
        """Note which class is meant; refuse an unknown short name."""
        others = os.environ.get("LGX_ALLOW_IMPORTS") or declared_methods()
        if path.isidentifier() and path not in self.classes[root] and not others:
            raise UserError(f"{root}: class {path!r} is unknown{suggest(path, list(self.classes[root]))}")
        own = path.isidentifier() or path.startswith(("lgx.", "data_modules."))
        chosen[root] = path.rpartition(".")[2] if own else ""

    def _check_argument(self, root: str, name: str, chosen: dict[str, str]) -> None:
        argument = name.partition(".")[0].removesuffix("+")
        known = self.classes[root].get(chosen.get(root, ""))
        if known is not None and argument not in known and argument not in _OF_ANY_CLASS:
            raise UserError(f"{root}: {no_option_of(argument, chosen[root], known, root)}")


def unknown_option(
    shown: str, options: Sequence[str], help: str = "--help-all", renamed: Mapping[str, str] | None = None
) -> str:
    """The sentence on an option of the command line that no command has.

    Args:
        shown: The option, perhaps with its value.
        options: All options of the command.
        help: The option that lists them.
        renamed: Old name of an option -> its name now.
    """
    names = renamed or {}
    alike = difflib.get_close_matches(shown.replace("=", " ").split(" ")[0], [*options, *names], n=2, cutoff=0.8)
    close = dict.fromkeys(names.get(option, option) for option in alike)
    return f"unknown option {shown}; " + (f"did you mean {' or '.join(close)}?" if close else f"see {help}")


def unknown_key(key: str, options: Sequence[str]) -> str:
    """The sentence on a key of a configuration file that no command has.

    Args:
        key: The key, with those above it, joined by dots.
        options: All options of the command.
    """
    close = [option.removeprefix("--") for option in difflib.get_close_matches(f"--{key}", options, n=2, cutoff=0.8)]
    hint = f"did you mean {' or '.join(close)}?" if close else "see --help-all for the known ones"
    return f"the key {key!r} is unknown; {hint}"


def no_option_of(name: str, owner: str, known: Sequence[str], root: str, help: str = "--help-all") -> str:
    """The sentence on an argument that a class does not have.

    Args:
        name: The argument.
        owner: Name of the class.
        known: Its arguments.
        root: Option that names the class, ``model`` or ``data``.
        help: The option that lists all options.
    """
    if root == "model" and name in _ELSEWHERE:
        return f"unknown option {name!r} of {owner}; it is {_ELSEWHERE[name]}"
    return f"unknown option {name!r} of {owner}{suggest(name, known, help)}"


def suggest(word: str, known: Sequence[str], help: str = "--help-all") -> str:
    """The end of a sentence on an unknown word: similar known words, or all of them, or the option that lists them."""
    close = difflib.get_close_matches(word, known, n=2)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; known are {', '.join(sorted(known))}" if known else f"; see {help}"


def _options(argv: Sequence[str]) -> Iterator[tuple[str, str | None, str]]:
    """The options of a command line, each with its value, and both as they were typed."""
    words = list(argv)
    while words:
        word = words.pop(0)
        option, equals, value = word.partition("=")
        if option == "--":
            return
        if not option.startswith("-"):
            continue
        if equals:
            yield option, value, word
        elif words and not words[0].startswith("--"):
            value = words.pop(0)
            yield option, value, f"{option} {value}"
        else:
            yield option, None, option
