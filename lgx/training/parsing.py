"""Parse command lines with jsonargparse: bounded YAML, flags, and one sentence for any mistake."""

import inspect
import itertools
import re
import sys
from collections.abc import Sequence
from typing import Any

import yaml
from jsonargparse import ArgumentError, ArgumentParser, Namespace, get_loader, set_dumper, set_loader

from lgx.errors import UserError
from lgx.host.safety import DEEPEST, LONGEST, MOST_OPTIONS, TooLarge, check_text, check_yaml
from lgx.training.allowed_imports import KNOWN, known_classes
from lgx.training.lightning_internals import option_strings
from lgx.training.option_names import suggest

_UNKNOWN = re.compile(
    r"unrecognized arguments: (?P<typed>[^\s=]+)|(?:Group '(?P<group>.*?)' .*?o|O)ption '(?P<name>.*?)'"
)
"""How a message begins if an option is unknown, or a key of a file that belongs to no class."""

_jsonargparse_yaml = get_loader("yaml")


def parse(parser: Any, argv: Sequence[str]) -> Namespace:
    """Parse a command line with a parser that was made with ``exit_on_error=False``.

    Args:
        parser: The parser.
        argv: The arguments; options may have hyphens in place of underscores.

    Raises:
        UserError: For any mistake in them, in one sentence.
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
        raise UserError(explain(str(error), option_strings(parser), parser.prog)) from error


def underscored(argv: Sequence[str]) -> list[str]:
    """A command line whose options have underscores: ``--img-size 64``; positional arguments follow ``--``."""
    words = list(argv)
    end = words.index("--") if "--" in words else len(words)
    for number, word in enumerate(words[:end]):
        option, equals, value = word.partition("=")
        if option.startswith("--"):
            words[number] = f"--{option[2:].replace('-', '_')}{equals}{value}"
    return words


def explain(message: str, options: Sequence[str] = (), program: str = "lgx") -> str:
    """Turn a message of jsonargparse, which lists every alternative that it tried, into one sentence.

    Args:
        message: The message.
        options: All options of the command, for suggestions.
        program: The command.

    Returns:
        One line: which key, what was wrong, what would be right.
    """
    if found := _UNKNOWN.match(message):
        name = found["typed"] or f"--{'.'.join(filter(None, (found['group'], found['name'])))}"
        if not name.startswith("-") or name == "--":
            return f"{name}: unexpected argument; `{program} --help` describes what the command takes"
        return f"unknown option {name}{suggest(name, options, '--help-all' if '--config' in options else '--help')}"
    message = re.sub(r"NestedArg\(key='(\w+)', val=(.*)\)", r"\1=\2 without a class", message)
    # Of an option that takes one or a list, the first problem is that of the class that was given.
    message = re.sub(r"(?ms)^( *)(- Problem .*?)^\1- Problem .*?(?=^\1\S|^ *Given)", r"\1\2", message)
    keys = re.findall(r'Parser key "([^"]*)"', message)
    key = ".".join(key for key, _ in itertools.groupby(keys))  # each type that was tried names the key again
    if found := re.search(r"the following arguments are required: ([\w.]+(?:, [\w.]+)*)", message):
        names = [f"--{key}.{name}" if key else f"--{name}" for name in found[1].split(", ")]
        if "-c" in options:
            return f"{', '.join(names)}: missing; give it on the command line or in a --config file"
        words = [name if name in options else name[2:].upper() for name in names]
        return f"{', '.join(words)}: missing; `{program} --help` describes what the command takes"
    if found := re.search(r"argument ([^:/]+)\S*: invalid _boolean_type value: (.*)", message):
        return f"{found[1]}: expected true, false or nothing, got {found[2]}"
    innermost = re.split(r'Parser key "[^"]*"', message)[-1]
    if found := re.search(r"Option '([^']*)' is not accepted", message):
        return _unknown_option_of_class(f"--{key}", found[1], *message.split(found[0], 1))
    reason = _wrong_class(innermost, key) or _wrong_value(innermost)
    if reason is None:
        lines = [re.sub(r"\s+", " ", line).strip(" -") for line in message.splitlines()]
        return "; ".join(line for line in lines if line)[:400]
    return f"{key}: {reason}" if key else reason


def _unknown_option_of_class(option: str, name: str, before: str, after: str) -> str:
    """The sentence on an option that a class does not have.

    Args:
        option: The option that takes the class.
        name: The unknown option of the class.
        before: The message up to the words that it is unknown.
        after: The message behind them, which names the class where it is an argument of another one.
    """
    inner = re.match(r"\. Got value: Namespace\(class_path='([\w.]+)'", after)
    path = inner[1] if inner else ["", *re.findall(r"class_path '([\w.]+)'", before)][-1]
    module, _, owner = path.rpartition(".")
    kind = getattr(sys.modules.get(module), owner, None)  # jsonargparse has imported it; the message imports nothing
    names: list[str] = []
    if inspect.isclass(kind):
        names = ArgumentParser(exit_on_error=False).add_class_arguments(kind, fail_untyped=False, sub_configs=True)
    of, help = (f" of {owner}", f"{option}.help {owner}") if owner else ("", f"{option}.help")
    return f"unknown option {option}.{name}{of}{suggest(name, names, help, f'{option}.')}"


def _wrong_class(message: str, key: str) -> str | None:
    """What is wrong with the name of a class."""
    if found := re.search(r"Importing '([^']*)' is not allowed", message):
        package = found[1].split(".")[0]
        return (
            f"importing {found[1]} is not allowed; a class path names a class of {KNOWN}; LGX_ALLOW_IMPORTS={package} "
            f"also admits {package}, if you wrote it or trust it"
        )
    if found := re.search(r"Multiple subclasses with name (\w+)\..* ambiguity: (.+)\.", message):
        return f"several classes have the name {found[1]}; give the path of one: {found[2]}"
    if "<class 'float'>" in message or not (found := re.search(r"dot import path string: (\S+)", message)):
        return None
    message = message.replace("lgx.components.optim.SchedulerCallable", "torch.optim.lr_scheduler.LRScheduler")
    kinds = {kind for kind in known_classes().values() if not inspect.isabstract(kind)}
    suiting = {kind for kind in kinds if any(f"{base.__module__}.{base.__name__}" in message for base in kind.__mro__)}
    names = sorted(kind.__name__ for kind in suiting or kinds)
    return f"class {found[1]!r} is unknown{suggest(found[1], names, f'--{key}.help')}"


def _wrong_value(message: str) -> str | None:
    """What is wrong with a value, of which each type that the option may have was tried."""
    message = re.sub(r"(Got value: .*)\. Got value: Namespace\(.*", r"\1", message)  # of the class above
    kind = r"(?:typing\.Literal\[(.*)\]|<class '(?:collections\.abc\.)?([\w.]+)'>|(tuple with \d+ elements))"
    if found := re.search(rf"Expected (?:a )?{kind}\. Got value: (.+)", message):
        wanted = f"one of {found[1]}" if found[1] else (found[2] or found[3]).replace("Iterable", "list")
        return f"expected {wanted}, got {found[4][:200]}"
    given = re.search(r"Given value: (.*?)(?:\. Got value: .*)?$", message, re.MULTILINE)
    if number := re.search(r"Not of type (Positive|NonNegative)Int: (?:.*'(.*)'|(\S+) does)?", message):
        value = number[2] or number[3] or (given and given[1][:200])
        return f"expected a whole number of at least {int(number[1] == 'Positive')}, got {value}"
    if found := re.search(r"(class, but is abstract|not correspond to a subclass of (\w+))", message):
        named = given and re.search(r"(?:class_path\W+)?([\w.]+)", given[1])
        name = named[1] if named else "the class"
        if found[2] is None:
            return f"{name} lacks what every class of its kind defines, see its docstring"
        return f"{name} is not a subclass of {found[2]}; derive it from {found[2]}"
    types = dict.fromkeys(re.findall(r"Expected (?:a )?<class '([\w.]+)'>", message.partition("Given value")[0]))
    if (choices := re.search(r"Expected (?:a )?typing\.Literal\[(.*)\]", message)) and given:
        return f"expected one of {choices[1]}, got {given[1][:200]}"
    if types and given:
        return f"expected {' or '.join('null' if t == 'NoneType' else t for t in types)}, got {given[1][:200]}"
    return None


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
