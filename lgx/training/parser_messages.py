"""Turn the messages of jsonargparse, which list every alternative that it tried, into one sentence."""

import inspect
import itertools
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from lgx.training.allowed_imports import KNOWN
from lgx.training.option_names import no_option_of, suggest, unknown_option

NO_CONFIGURATION = "holds no configuration"


def explain(
    message: str, bases: Mapping[str, type] | None = None, options: Sequence[str] = (), help: str = "--help"
) -> str:
    """Turn a parser's message into one sentence.

    Args:
        message: Message of an ``ArgumentError``.
        bases: Key -> class whose subclasses may be its value, for suggestions.
        options: All options of the command, for suggestions.
        help: What lists the options.

    Returns:
        One line: which key, what was wrong, what would be right.
    """
    keys = re.findall(r'Parser key "([^"]*)"', message)
    key = ".".join(key for key, _ in itertools.groupby(keys))  # each type that was tried names the key again
    if found := re.search(r"unrecognized arguments: (.+)", message):
        return unknown_option(found[1], options, help)
    if found := re.search(r"the following arguments are required: ([\w.]+(?:, [\w.]+)*)", message):
        names = ", ".join(f"--{key}.{name}" if key else f"--{name}" for name in found[1].split(", "))
        return f"{names}: missing; give it on the command line or in a --config file"
    known = subclasses(bases[key]) if bases and key in bases else []
    reason = _foreign_file(message) or _not_a_number(message) or _wrong_name(message, key, known, help)
    if (reason := reason or _wrong_value(message)) is not None:
        return f"{key}: {reason}" if key else reason
    lines = [re.sub(r"\s+", " ", line).strip(" -") for line in message.splitlines()]
    return "; ".join(line for line in lines if line)[:400]


def _foreign_file(message: str) -> str | None:
    """That a file which a value names holds something else; the message also quotes its lines."""
    before = "(?:Problems parsing config: |Invalid content in sub-config file )?"
    if found := re.search(rf"^[\s-]*{before}(.+?)(?:: \1)?:? {NO_CONFIGURATION}$", message, re.MULTILINE):
        return f"the file {found[1]} {NO_CONFIGURATION}; give a YAML file with keys and values"
    return None


def _not_a_number(message: str) -> str | None:
    """What is wrong with the value of an option that takes a number or a tensor, such as a learning rate."""
    innermost = re.split(r'Parser key "[^"]*"', message)[-1]
    given = re.search(r"Given value: (.*?)(?:\. Got value: .*)?$", innermost, re.MULTILINE)
    is_number = "Subtypes: [<class 'float'>, <class 'torch.Tensor'>]" in innermost
    return f"expected a finite number, got {given[1]}" if given and is_number else None


def _wrong_name(message: str, key: str, known: Sequence[type], help: str) -> str | None:
    """What is wrong with the name of a class, of one of its options, or of a key."""
    if found := re.search(r"Importing '([^']*)' is not allowed", message):
        package = found[1].split(".")[0]
        return (
            f"importing {found[1]} is not allowed; a class path names a class of {KNOWN}; LGX_ALLOW_IMPORTS={package} "
            f"also admits {package}, if you wrote it or trust it"
        )
    if found := re.search(r"Option '([^']*)' is not accepted", message):
        owner = re.findall(r"Problem with given class_path '([^']*)'", message)
        name = owner[-1].rsplit(".", 1)[-1] if owner else "this command"
        arguments = next((_arguments(kind) for kind in known if kind.__name__ == name), [])
        return no_option_of(found[1], name, arguments, key, help)
    if found := re.search(r"Expected a dot import path string: (\S+)", message):
        return f"class {found[1]!r} is unknown{suggest(found[1], [c.__name__ for c in known], help)}"
    if found := re.search(r"Key \"?'?([\w.]+)\"?'? is not expected", message):
        return f"the key {found[1]!r} is unknown; see {help} for the known ones"
    return None


def _wrong_value(message: str) -> str | None:
    """What is wrong with a value."""
    given = re.findall(r"Given value: (.+)", message) or re.findall(r"Got value: (.+)", message)
    value = re.sub(r"^NestedArg\(key='[^']*', val='?(.*?)'?\)$", r"\1", given[-1].strip())[:200] if given else ""
    if value.startswith(("{", "Namespace(")):
        value = "a mapping"  # perhaps of a file that is no configuration
    if base := re.search(r"does not correspond to a subclass of (\w+)", message):
        return f"{value} is not a subclass of {base[1]}; derive it from {base[1]}, see its docstring"
    if "instantiatable class, but is abstract" in message:
        base = re.search(r"Subtypes: \[<class '(?:\w+\.)*(\w+)'>", message)
        return f"{value} lacks what every {base[1] if base else 'class of its kind'} defines, see its docstring"
    if number := re.search(r"Not of type (Positive|NonNegative)Int: (?:.*'(.*)'|(\S+) does)?", message):
        return (
            f"expected a whole number of at least {int(number[1] == 'Positive')}, got {value or number[2] or number[3]}"
        )
    if choices := re.search(r"Expected a typing\.Literal\[([^\]]*)\]", message):
        return f"expected one of {choices[1]}, got {value}"
    of_value = re.findall(r"Expected a <class '([\w.]+)'>\. Got value", message)  # not of the class around it
    expected = list(dict.fromkeys(of_value or re.findall(r"Expected a <class '([\w.]+)'>", message)))
    if expected and given:
        return f"expected {' or '.join('null' if e == 'NoneType' else e for e in expected)}, got {value}"
    return None


def subclasses(base: type) -> list[type]:
    """All subclasses of a class, at any depth, that users can choose; Lightning's only if it exports the class too."""
    exported = vars(sys.modules[base.__module__.rpartition(".")[0]]) if "." in base.__module__ else {}
    found: dict[type, None] = {}
    waiting: list[Any] = list(base.__subclasses__())
    while waiting:
        kind = waiting.pop(0)
        waiting += kind.__subclasses__()
        is_own = not kind.__module__.startswith("lightning") or kind.__name__ in exported
        if is_own and not inspect.isabstract(kind) and not kind.__name__.startswith("_"):
            found[kind] = None
    return list(found)


def _arguments(kind: type) -> list[str]:
    """Names of the constructor arguments of a class, with the inherited ones."""
    constructors = [vars(c)["__init__"] for c in kind.__mro__ if "__init__" in vars(c)]
    names = dict.fromkeys(name for c in constructors for name in inspect.signature(c).parameters)
    return [name for name in names if name not in ("self", "args", "kwargs")]
