"""Parse command lines with jsonargparse, whose reader of YAML is the one door for files and values."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentError, Namespace, get_loader, set_dumper, set_loader

from lgx.errors import UserError
from lgx.host.safety import DEEPEST, LONGEST, MOST_OPTIONS, TooLarge, check_text, check_yaml, read_yaml
from lgx.training.allowed_imports import forbid_imports
from lgx.training.lightning_internals import loading_file, option_strings
from lgx.training.parser_messages import NO_CONFIGURATION, explain

_jsonargparse_yaml = get_loader("yaml")


def parse(parser: Any, argv: list[str]) -> Namespace:
    """Parse the arguments of a command that takes no class, with a parser that was made with ``exit_on_error=False``.

    Args:
        parser: The parser.
        argv: The arguments.

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
        raise UserError(explain(str(error), options=option_strings(parser))) from error


def config_files(argv: Sequence[str]) -> list[str]:
    """The configuration files that a command line names with ``--config``."""
    given = [word for option, word in itertools.pairwise(argv) if option in ("-c", "--config")]
    return given + [option.removeprefix("--config=") for option in argv if option.startswith("--config=")]


def check_values(argv: Sequence[str]) -> None:
    """Refuse values and files of a command line that would exhaust the parser, or that it could not name.

    Args:
        argv: The command line.

    Raises:
        UserError: If one has too many values or levels, or a file is no YAML with a mapping.
    """
    for before, word in itertools.pairwise(["", *argv]):
        option, equals, value = word.partition("=")
        try:
            check_text(value if equals else word, MOST_OPTIONS, LONGEST)
        except TooLarge as error:
            raise UserError(f"{(option if equals else before)[:100]}: {error}; give a shorter value") from error
    for file in config_files(argv):
        if not isinstance(read_yaml(Path(file), "give a configuration file", MOST_OPTIONS, LONGEST), dict):
            raise UserError(f"{file}: holds no mapping from keys to values; give a configuration file")


def use_checked_yaml() -> None:
    """Let jsonargparse check the YAML that it reads, and write texts that are enumerations."""
    set_loader("yaml", _load_yaml, (yaml.YAMLError,))
    set_dumper("yaml", _dump_yaml)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes defaults such as those of Lightning's ``Timer`` as the texts that they are."""


_Dumper.add_multi_representer(str, lambda dumper, text: dumper.represent_str(str.__str__(text)))


def _dump_yaml(data: Any) -> str:
    # The layout of jsonargparse's own files, with keys in the order of the parser.
    return yaml.dump(data, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, sort_keys=False)


def _load_yaml(text: str) -> Any:
    if len(text) > DEEPEST:  # a file that a value names; shorter texts can stand for little, and are read often
        check_yaml(text, MOST_OPTIONS, LONGEST)
    try:
        value = _jsonargparse_yaml(text)
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits
        raise yaml.YAMLError(str(error)) from error
    if not isinstance(value, dict | list) and (file := loading_file()) is not None and _holds(file, text):
        raise yaml.YAMLError(f"{file} {NO_CONFIGURATION}")  # as a value it would stand in a message
    return value


def _holds(file: str, text: str) -> bool:
    """Whether a text is the whole of a file, and no value in it."""
    try:
        return Path(file).stat().st_size == len(text.encode()) and Path(file).read_text(encoding="utf-8") == text
    except (OSError, ValueError):
        return False
