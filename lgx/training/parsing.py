"""Parse command lines with jsonargparse: one sentence for any mistake."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import yaml
from jsonargparse import ActionConfigFile, ArgumentError, Namespace, set_dumper

from lgx.errors import UserError
from lgx.host.safety import read_yaml
from lgx.training.lightning_internals import option_strings
from lgx.training.option_names import LINKED, hint

_CLASS_FIRST = "give the class before its options"
_KINDS = re.compile(r"\s+(Subclass types expect|- a (class path|dict) )")
"""Lines that list the forms of a class, the same for every mistake."""


def parse(parser: Any, argv: Sequence[str]) -> Namespace:
    """Parse a command line with a parser that was made with ``exit_on_error=False``.

    Args:
        parser: The parser.
        argv: The arguments; options may have hyphens in place of underscores.
    """
    set_dumper("yaml", _dump_yaml)
    try:
        return cast(Namespace, parser.parse_args(underscored(argv)))
    except ArgumentError as error:
        raise UserError(_explain(str(error), option_strings(parser))) from error


def underscored(argv: Sequence[str]) -> list[str]:
    """A command line whose options have underscores: ``--img-size 64``; positional arguments follow ``--``."""
    words = list(argv)
    end = words.index("--") if "--" in words else len(words)
    for number, word in enumerate(words[:end]):
        option, equals, value = word.partition("=")
        if option.startswith("--"):
            words[number] = f"--{option[2:].replace('-', '_')}{equals}{value}"
    return words


class ConfigFile(ActionConfigFile):
    """The option of a configuration file, which is named in the messages about it."""

    @staticmethod
    def apply_config(parser: Any, cfg: Namespace, dest: str, value: str) -> None:
        """Add the options of a file to the parsed ones."""
        content = read_yaml(Path(value), "give a configuration file")
        if not isinstance(content, dict):
            raise UserError(f"{value}: holds no mapping from keys to values; give a configuration file")
        for option, other in LINKED.items():
            group, name = option.split(".")
            options = content.get(group)
            if isinstance(options, dict) and name in (options.get("init_args") or options):
                raise UserError(f"{value}: {option}: follows {other}; leave it out")
        try:
            ActionConfigFile.apply_config(parser, cfg, dest, value)
        except ArgumentError as error:
            raise UserError(f"{value}: {_explain(str(error), option_strings(parser))}") from error


def _explain(message: str, options: Sequence[str]) -> str:
    """One sentence from a message of jsonargparse, which is an indented tree of all types that it has tried.

    The reason is the first of the deepest lines; the keys above it name the option.
    """
    lines = [line for line in message.splitlines() if line.strip() and not _KINDS.match(line)] or [message]
    deepest = max(range(len(lines)), key=lambda number: len(lines[number]) - len(lines[number].lstrip()))
    place = ".".join(re.findall(r'Parser key "([^"]+)"', "\n".join(lines[: deepest + 1])))
    reason = lines[deepest].rpartition("callable class: ")[2].partition(". Got value: Namespace")[0].strip(" -")[:400]
    if unknown := re.match(r"Expected a dot import path string: (\w+)$", reason):
        reason = f"class {unknown[1]!r} is unknown; see --help for the classes"
    elif reason.endswith("is abstract"):
        value = re.search(r"Given value: ([\w.]+)$", message, re.MULTILINE)
        reason = f"{reason}, got {value[1]}" if value else _CLASS_FIRST
    elif reason.endswith("is not accepted"):
        helps = [f"--{group}.help" for group in (place, place.partition(".")[0])]
        reason += f"; see {next((help for help in helps if help in options), '--help')}"
    elif reason.startswith("unrecognized arguments: "):
        reason += hint(reason.split()[2].partition("=")[0], options)
    elif reason.startswith(("Expected", "Not")) and "Got value" not in reason:
        value = re.search(r"Given value: (?!NestedArg)(.+?)(\. Got value|\n|$)", message)
        reason += f", got {value[1]:.100}" if value else ""
    return f"{place}: {reason}" if place else reason


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes enumerations, such as the default of Lightning's ``Timer``, as texts."""


def _represent_text(dumper: Any, text: str) -> Any:
    """A text; in quotes where jsonargparse, unlike YAML 1.1, reads a number, such as 1e3."""
    plain = str.__str__(text)
    quotes = "'" if re.fullmatch(r"[+-]?[\d.]+e[+-]?\d+", plain, re.IGNORECASE) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", plain, quotes)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_multi_representer(str, _represent_text)


def _dump_yaml(data: Any) -> str:
    """Write a configuration, with keys in the order of the parser."""
    return str(yaml.dump(data, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, sort_keys=False))
