"""Parse command lines and configuration files with jsonargparse."""

import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentError, Namespace, get_loader, set_dumper, set_loader
from jsonargparse._util import config_load_stack  # there is no public name for the files that are being loaded

from lgx.errors import UserError
from lgx.host.safety import LONGEST, MOST_OPTIONS, TooLarge, check_text, check_yaml, read_yaml
from lgx.training.allowed_imports import forbid_imports
from lgx.training.parser_messages import NO_CONFIGURATION, explain


def parse(parser: Any, argv: list[str], renamed: Mapping[str, str] | None = None) -> Namespace:
    """Parse the arguments of a command that takes no class, with a parser that was made with ``exit_on_error=False``.

    Args:
        parser: The parser.
        argv: The arguments.
        renamed: Former option -> option, both with dashes, for suggestions.

    Raises:
        UserError: For any mistake in them, in one sentence.
    """
    use_checked_yaml()
    forbid_imports()
    check_values(argv)
    try:
        arguments: Namespace = parser.parse_args(argv)
        return arguments
    except ArgumentError as error:
        options = [option for action in parser._actions for option in action.option_strings]
        raise UserError(explain(str(error), options=options, renamed=renamed)) from error


def check_configs(argv: Sequence[str]) -> None:
    """Check all values, and read the files of ``--config`` once, so that one is named before anything is parsed.

    Args:
        argv: The command line.

    Raises:
        UserError: If a file cannot be read, or is no YAML of reasonable size with a mapping, or a value is too long.
    """
    for file in config_files(argv):
        if not isinstance(read_yaml(Path(file), "give a configuration file", MOST_OPTIONS, LONGEST), dict):
            raise UserError(f"{file}: holds no mapping from keys to values; give a configuration file")


def config_files(argv: Sequence[str]) -> list[str]:
    """The configuration files that a command line names with ``--config``."""
    check_values(argv)
    given = [word for option, word in itertools.pairwise(argv) if option in ("-c", "--config")]
    return given + [option.removeprefix("--config=") for option in argv if option.startswith("--config=")]


def check_values(argv: Sequence[str]) -> None:
    """Refuse values on the command line that would exhaust the parser.

    Args:
        argv: The command line.

    Raises:
        UserError: If one has too many values or levels.
    """
    for before, word in itertools.pairwise(["", *argv]):
        option, equals, value = word.partition("=")
        try:
            check_text(value if equals else word, MOST_OPTIONS, LONGEST)
        except TooLarge as error:
            raise UserError(f"{(option if equals else before)[:100]}: {error}; give a shorter value") from error


def use_checked_yaml() -> None:
    """Let jsonargparse check all YAML that it reads, accept old spellings, and write texts that are enumerations."""
    set_loader("yaml", _load_yaml, (yaml.YAMLError,))
    set_dumper("yaml", _dump_yaml)


_jsonargparse_yaml = get_loader("yaml")


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes defaults such as those of Lightning's ``Timer`` as the texts that they are."""


_Dumper.add_multi_representer(str, lambda dumper, text: dumper.represent_str(str.__str__(text)))


def _dump_yaml(data: Any) -> str:
    # The layout of jsonargparse's own files, with keys in the order of the parser.
    return yaml.dump(data, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, sort_keys=False)


def _load_yaml(text: str) -> Any:
    check_yaml(text, MOST_OPTIONS, LONGEST)
    try:
        value = _jsonargparse_yaml(text)
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits
        raise yaml.YAMLError(str(error)) from error
    if not isinstance(value, dict | list) and (file := _file_of(text)):
        raise yaml.YAMLError(f"{file} {NO_CONFIGURATION}")  # as a value it would stand in a message
    return value


def _file_of(text: str) -> str | None:
    """The file that is just being loaded, if this is its whole text: a value of an option may name such a file."""
    for file, _ in config_load_stack.get()[-1:]:
        try:
            if os.path.getsize(file) == len(text.encode()) and Path(file).read_text(encoding="utf-8") == text:
                return file
        except (OSError, ValueError):
            return None
    return None
