"""Turn the messages of jsonargparse into one sentence."""

import inspect
import itertools
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from lgx.training.allowed_imports import KNOWN
from lgx.training.option_names import no_option_of, suggest, unknown_option

NO_CONFIGURATION = "holds no configuration"

_TO_GIVE = {
    "TaskDataModule": " (data_modules), and give it task (an lgx.core.task.Task), train_dataloader, val_dataloader, "
    "test_dataloader, batch_size and num_workers"
}
"""Base class -> what a class of one's own must have, where messages say it."""


def explain(
    message: str,
    bases: Mapping[str, type] | None = None,
    options: Sequence[str] = (),
    help: str = "--help",
    renamed: Mapping[str, str] | None = None,
) -> str:
    """Turn a parser's message, which lists every alternative that it tried, into one sentence.

    Args:
        message: Message of an ``ArgumentError``.
        bases: Key -> class whose subclasses may be its value, for suggestions.
        options: All options of the command, for suggestions.
        help: What lists the options.
        renamed: Former option -> option; who misspells the former name is told the present one.

    Returns:
        One line: which key, what was wrong, what would be right.
    """
    keys = re.findall(r'Parser key "([^"]*)"', message)
    key = ".".join(key for key, _ in itertools.groupby(keys))  # each type that was tried names the key again
    known = subclasses(bases[key]) if bases and key in bases else []
    if (sentence := _unknown_option(message, key, options, renamed or {}, help)) is not None:
        return sentence
    reason = _foreign_file(message) or _abstract(message, (bases or {}).get(key))
    if (reason := reason or _unknown_name(message, key, known, help) or _wrong_value(message)) is not None:
        return f"{key}: {reason}" if key else reason
    lines = [re.sub(r"\s+", " ", line).strip(" -") for line in message.splitlines()]
    return "; ".join(line for line in lines if line)[:400]


def _foreign_file(message: str) -> str | None:
    """That a file which a value names holds something else; the message also quotes its lines."""
    before = "(?:Problems parsing config: |Invalid content in sub-config file )?"
    if found := re.search(rf"^[\s-]*{before}(.+?)(?:: \1)?:? {NO_CONFIGURATION}$", message, re.MULTILINE):
        return f"the file {found[1]} {NO_CONFIGURATION}; give a YAML file with keys and values"
    return None


def _unknown_option(
    message: str, key: str, options: Sequence[str], renamed: Mapping[str, str], help: str
) -> str | None:
    """The sentence for options of the command that are unknown or missing."""
    if found := re.search(r"unrecognized arguments: (.+)", message):
        return unknown_option(found[1], options, help, renamed)
    if found := re.search(r"the following arguments are required: ([\w.]+(?:, [\w.]+)*)", message):
        options = ", ".join(f"--{key}.{name}" if key else f"--{name}" for name in found[1].split(", "))
        return f"{options}: missing; give it on the command line or in a --config file"
    return None


def _unknown_name(message: str, key: str, known: Sequence[type], help: str) -> str | None:
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
        return no_option_of(found[1], name, _options(name, known), key, help)
    if (reason := _not_a_number(message)) is not None:
        return reason
    if found := re.search(r"Expected a dot import path string: (\S+)", message):
        return f"class {found[1]!r} is unknown{suggest(found[1], [c.__name__ for c in known], help)}"
    if found := re.search(r"Key \"?'?([\w.]+)\"?'? is not expected", message):
        return f"the key {found[1]!r} is unknown; see {help} for the known ones"
    return None


def _abstract(message: str, base: type | None) -> str | None:
    """What a class of a user does not define."""
    given = re.findall(r"Given value: (.+)", message)
    if base is None or not given or "instantiatable class, but is abstract" not in message:
        return None
    path = given[-1].strip()
    named = [c for c in _descendants(base) if inspect.isabstract(c) and path in (c.__name__, _path(c))]
    lacks = " and ".join(sorted(named[-1].__abstractmethods__)) if named else "methods"
    return f"{path} lacks {lacks}, which every {base.__name__} defines"


def _wrong_value(message: str) -> str | None:
    """What is wrong with a value."""
    given = re.findall(r"Given value: (.+)", message) or re.findall(r"Got value: (.+)", message)
    value = re.sub(r"^NestedArg\(key='[^']*', val='?(.*?)'?\)$", r"\1", given[-1].strip())[:200] if given else ""
    if value.startswith(("{", "Namespace(")):
        value = "a mapping"  # perhaps of a file that is no configuration
    if base := re.search(r"does not correspond to a subclass of (\w+)", message):
        return f"{value} is not a subclass of {base[1]}; derive it from {base[1]}{_TO_GIVE.get(base[1], '')}"
    problem = r"Problem with given class_path '([^']*)':\s+(cannot import name [^\n]*|No module named [^\n]*)"
    if found := re.search(problem, message):
        return f"{found[1]} cannot be imported ({found[2].strip()}); repair its module"
    if choices := re.search(r"Expected a typing\.Literal\[([^\]]*)\]", message):
        return f"expected one of {choices[1]}, got {value}"
    of_value = re.findall(r"Expected a <class '([\w.]+)'>\. Got value", message)  # not of the class around it
    expected = list(dict.fromkeys(of_value or re.findall(r"Expected a <class '([\w.]+)'>", message)))
    if expected and given:
        return f"expected {' or '.join('null' if e == 'NoneType' else e for e in expected)}, got {value}"
    return None


def _not_a_number(message: str) -> str | None:
    """What is wrong with the value of an option that takes a number or a tensor, such as a learning rate."""
    innermost = re.split(r'Parser key "[^"]*"', message)[-1]
    given = re.search(r"Given value: (.*?)(?:\. Got value: .*)?$", innermost, re.MULTILINE)
    if not given or "Subtypes: [<class 'float'>, <class 'torch.Tensor'>]" not in innermost:
        return None
    return f"expected a finite number, got {given[1]}"


def subclasses(base: type) -> list[type]:
    """All subclasses of a class, at any depth, that can be built; Lightning's only if it exports the class too."""
    return [found for found in _descendants(base) if not inspect.isabstract(found) and _is_choice(found, base)]


def _descendants(base: type) -> list[Any]:
    """All subclasses at any depth."""
    found: list[Any] = []
    subclass: type
    for subclass in base.__subclasses__():
        found += [subclass, *_descendants(subclass)]
    return list(dict.fromkeys(found))


def _is_choice(subclass: type, base: type) -> bool:
    """Whether a class is meant for users: Lightning has further ones for its own use, and lgx private ones."""
    if subclass.__name__.startswith("_"):
        return False
    if not subclass.__module__.startswith("lightning"):
        return True
    return subclass.__name__ in vars(sys.modules[base.__module__.rpartition(".")[0]])


def _path(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _options(class_name: str, classes: Sequence[type]) -> list[str]:
    """Names of the constructor arguments of the class of that name, with the inherited ones."""
    from lgx.training.loggers import OPTIONS  # imports Lightning, which most commands do without

    for candidate in classes:
        if candidate.__name__ == class_name:
            candidate = OPTIONS.get(candidate, candidate)
            constructors = [vars(c)["__init__"] for c in candidate.__mro__ if "__init__" in vars(c)]
            names = dict.fromkeys(name for c in constructors for name in inspect.signature(c).parameters)
            return [name for name in names if name not in ("self", "args", "kwargs")]
    return []
