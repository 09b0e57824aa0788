"""Parse command lines with jsonargparse: bounded YAML, flags, and one sentence for any mistake."""

import difflib
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentError, Namespace, get_loader, set_dumper, set_loader

from lgx.errors import UserError
from lgx.host.safety import DEEPEST, LONGEST, MOST_OPTIONS, TooLarge, check_text, check_yaml, load_plain, read_yaml
from lgx.training.lightning_internals import option_strings
from lgx.training.written_options import denied

_OTHER_WORDS = {
    "learning_rate": "--model.optimizer.lr", "lr": "--model.optimizer.lr", "epochs": "--trainer.max_epochs",
    "batch_size": "--data.batch_size", "seed": "--seed_everything",
}  # fmt: skip
"""Last part of an option that many try -> the right one."""
_NO_NAME = re.compile(r"\.(init_args|dict_kwargs)\b|\+$")

_jsonargparse_yaml = get_loader("yaml")


def parse(parser: Any, argv: Sequence[str]) -> Namespace:
    """Parse a command line with a parser that was made with ``exit_on_error=False``.

    Args:
        parser: The parser.
        argv: The arguments; options may have hyphens in place of underscores.
    """
    set_loader("yaml", _load_yaml, (yaml.YAMLError,))
    set_dumper("yaml", _dump_yaml)
    for before, word in itertools.pairwise(["", *argv]):  # jsonargparse reads some values past its loader
        option, equals, value = word.partition("=")
        try:
            check_text(value if equals else word, MOST_OPTIONS, LONGEST)
        except TooLarge as error:
            raise UserError(f"{(option if equals else before)[:100]}: {error}; give a shorter value") from error
    try:
        arguments: Namespace = parser.parse_args(underscored(argv))
        return arguments
    except ArgumentError as error:
        raise UserError(_explain(str(error), argv, option_strings(parser))) from error


def underscored(argv: Sequence[str]) -> list[str]:
    """A command line whose options have underscores: ``--img-size 64``; positional arguments follow ``--``."""
    words = list(argv)
    end = words.index("--") if "--" in words else len(words)
    for number, word in enumerate(words[:end]):
        option, equals, value = word.partition("=")
        if option.startswith("--"):
            words[number] = f"--{option[2:].replace('-', '_')}{equals}{value}"
    return words


def written_options(argv: Sequence[str], depth: int = DEEPEST) -> Iterator[tuple[str, str, Any]]:
    """The options of a command line and of its files: file, if any; name without dashes and ``init_args``; value.

    Args:
        argv: The command line without the command.
        depth: Levels of keys to go through in files, and in values that are mappings.
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


def _explain(message: str, argv: Sequence[str], options: Sequence[str]) -> str:
    """One sentence from a message of jsonargparse, which is an indented tree of all types that it has tried.

    The reason is the first of the deepest lines. The option is the longest one that was written and that the message
    quotes.
    """
    lines = [line for line in message.splitlines() if line.strip()] or [message]
    reason = max(lines, key=lambda line: len(line) - len(line.lstrip())).strip(" -")[:400]
    quoted = message.replace('"', "'")
    named = [
        (place, name, value)
        for place, name, value in reversed([*written_options(argv)])
        if any(text in quoted for text in (f"--{name}", f"'{name}'", f"'{name.rpartition('.')[2]}'"))
        and not name.endswith(".class_path")
    ]
    if not named:
        return reason
    place, name, value = max(named, key=lambda entry: len(entry[1]))
    if refused := [line.split("'")[1] for line in lines if "is not allowed, denied by" in line]:
        return f"{place}{name}: {denied(refused[0])}"
    got = "" if str(value) in reason else f", got {value!s:.100}"
    return f"{place}{name}: {reason}{got}{_hint(name, options)}"


def _hint(name: str, options: Sequence[str]) -> str:
    """What may be meant by an option that the parser itself does not have: a similar one, or the help of its class."""
    owner, _, last = name.rpartition(".")
    known = [option for option in options if not option.endswith((".help", "+")) and not f"--{name}".startswith(option)]
    same = [_OTHER_WORDS[last]] if last in _OTHER_WORDS else [option for option in known if option.endswith(f".{last}")]
    close = same[:1] or difflib.get_close_matches(f"--{name}", known, n=2, cutoff=0.7)
    if f"--{name}" in {*options, *close}:
        return ""
    if close:
        return f"; did you mean {' or '.join(close)}?"
    helps = [f"--{group}.help" for group in (owner, name.partition(".")[0])]
    return f"; see {next((help for help in helps if help in options), '--help')}"


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes defaults such as those of Lightning's ``Timer`` as the texts that they are."""


def _represent_text(dumper: Any, text: str) -> Any:
    """A text as it is; in quotes where jsonargparse, unlike YAML 1.1, reads a number, such as 1e3."""
    plain = str.__str__(text)
    is_number = plain[:1] in "+-.0123456789" and not isinstance(_load_yaml(plain), str)
    return dumper.represent_scalar("tag:yaml.org,2002:str", plain, "'") if is_number else dumper.represent_str(plain)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_multi_representer(str, _represent_text)


def _dump_yaml(data: Any) -> str:
    # The layout of jsonargparse's own files, with keys in the order of the parser.
    return yaml.dump(data, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, sort_keys=False)


def _load_yaml(text: str) -> Any:
    if len(text) > DEEPEST:  # shorter texts can stand for little, and are read often
        check_yaml(text, MOST_OPTIONS, LONGEST)
    try:
        value = _jsonargparse_yaml(text)
        is_word = "\n" not in text and text[:1] not in ("'", '"')  # a word has no comments, tags and anchors
        is_lost = isinstance(value, str) or (value is None and text.strip().lower() not in ("", "~", "null"))
        return text.strip() if is_word and is_lost else value
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits
        raise yaml.YAMLError(str(error)) from error
