"""One way of reading arguments: mistakes become one sentence, and a configuration imports nothing foreign."""

import difflib
import importlib
import inspect
import itertools
import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentError, Namespace, get_loader, set_loader, set_parsing_settings

from lgx.core.plain_yaml import check_yaml, read_yaml
from lgx.errors import UserError
from lgx.training.migrations import migrate

_PACKAGES = {
    "lgx.training.callbacks": "lgx", "lgx.components.optim": "lgx",
    "data_modules": "data_modules",
    "torch.optim": "torch.optim", "torch.optim.lr_scheduler": "torch.optim", "timm.optim": "timm.optim",
    "lightning.pytorch.accelerators": "lightning", "lightning.pytorch.callbacks": "lightning",
    "lightning.pytorch.loggers": "lightning", "lightning.pytorch.plugins": "lightning",
    "lightning.pytorch.plugins.environments": "lightning", "lightning.pytorch.plugins.io": "lightning",
    "lightning.pytorch.plugins.precision": "lightning", "lightning.pytorch.profilers": "lightning",
    "lightning.pytorch.strategies": "lightning",
}  # fmt: skip
"""Packages whose classes a configuration may name -> where these classes must be from."""

_ADMITTED: set[str] = set()

KNOWN = "lgx, data_modules, torch.optim, timm.optim, or lightning's callbacks, loggers, plugins, profilers, strategies"


def restrict_imports() -> None:
    """Let configurations name the classes of known packages only: no functions, and no methods of the classes.

    A class path imports its module before anything checks the class, and wherever a callable may stand, any function
    could be named together with its arguments: the loader of a pickle, say. So a foreign configuration could run code.
    ``LGX_ALLOW_IMPORTS=mypackage,other`` admits whatever a user's own packages hold.

    Raises:
        UserError: If that variable is no list of packages.
    """
    allowed, denied = [], ["*"]
    for written, known in _known_classes().items():
        names = known.__module__.split(".")
        # By whatever package exports it: a saved configuration has the shortest of these paths.
        allowed += [written, *(".".join([*names[:depth], known.__qualname__]) for depth in range(1, len(names) + 1))]
        denied += [f"{allowed[-1]}.{name}" for name, value in vars(known).items() if _is_function(value)]
    _restrict(allowed, denied)


def _restrict(allowed: list[str], denied: list[str]) -> None:
    own = [name.strip() for name in os.environ.get("LGX_ALLOW_IMPORTS", "").split(",") if name.strip()]
    denied += _ADMITTED - set(own)  # jsonargparse keeps what it was told before
    set_loader("yaml", _load_yaml, (yaml.YAMLError,))
    try:
        set_parsing_settings(import_path_denylist=denied, import_path_allowlist=[*allowed, *own])
    except ValueError as error:
        raise UserError(f"LGX_ALLOW_IMPORTS: {' '.join(str(error).split())}") from error
    _ADMITTED.update(own)


@cache
def _known_classes() -> dict[str, type]:
    """Public classes by path."""
    from lgx.methods import registry  # imports torch, which the commands that take no class do without

    found: dict[str, type] = registry.method_classes() | registry.initializer_classes()
    known = {f"{value.__module__}.{name}": value for name, value in found.items()}
    known |= {f"lgx.methods.{name}": value for name, value in found.items() if value.__module__.startswith("lgx.")}
    return known | {
        f"{package}.{name}": value
        for package, home in _PACKAGES.items()
        for name, value in vars(importlib.import_module(package)).items()
        if inspect.isclass(value) and f"{value.__module__}.".startswith(f"{home}.") and not name.startswith("_")
    }


def _is_function(value: Any) -> bool:
    return inspect.isroutine(value) or isinstance(value, classmethod | staticmethod)


def _load_yaml(text: str) -> Any:
    """What jsonargparse reads, in configuration files and values, looked through first."""
    check_yaml(text)
    try:
        return migrate(_jsonargparse_yaml(text))
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits
        raise yaml.YAMLError(str(error)) from error


_jsonargparse_yaml = get_loader("yaml")


def parse(parser: Any, argv: list[str]) -> Namespace:
    """Parse arguments with a parser that was made with ``exit_on_error=False``.

    Raises:
        UserError: For whatever is wrong with them, in one sentence.
    """
    _restrict([], ["*"])  # none of these commands takes a class
    try:
        arguments: Namespace = parser.parse_args(argv)
        return arguments
    except ArgumentError as error:
        raise UserError(explain(str(error))) from error


def check_configs(argv: Sequence[str]) -> None:
    """Read the files of ``--config`` once, so that a damaged one is named before anything is parsed.

    Args:
        argv: The command line.

    Raises:
        UserError: If one cannot be read, or is no YAML of reasonable size with a mapping.
    """
    given = [word for option, word in itertools.pairwise(argv) if option in ("-c", "--config")]
    given += [option.removeprefix("--config=") for option in argv if option.startswith("--config=")]
    for file in given:
        if not isinstance(read_yaml(Path(file), "give a configuration file"), dict):
            raise UserError(f"{file}: holds no mapping from keys to values; give a configuration file")


def explain(message: str, bases: dict[str, type] | None = None) -> str:
    """Turn a parser's message, which lists every alternative it tried, into one sentence.

    Args:
        message: Message of an ``ArgumentError``.
        bases: Key -> class whose subclasses may stand there, for suggestions.

    Returns:
        One line: which key, what was wrong, what would be right.
    """
    keys = re.findall(r'Parser key "([^"]*)"', message)
    key = ".".join(keys)
    where = f"{key}: " if keys else ""
    known = _subclasses(bases[key]) if bases and key in bases else []
    if found := re.search(r"Importing '([^']*)' is not allowed", message):
        package = found[1].split(".")[0]
        return (
            f"{where}importing {found[1]} is not allowed; a class path names a class of {KNOWN}; "
            f"LGX_ALLOW_IMPORTS={package} admits what else you wrote yourself, or trust like that"
        )
    if found := re.search(r"Option '([^']*)' is not accepted", message):
        owner = re.findall(r"Problem with given class_path '([^']*)'", message)
        name = owner[-1].rsplit(".", 1)[-1] if owner else "this command"
        return f"{where}{found[1]!r} is no option of {name}{_suggest(found[1], _options(name, known))}"
    if found := re.search(r"Expected a dot import path string: (\S+)", message):
        return f"{where}class {found[1]!r} is unknown{_suggest(found[1], [c.__name__ for c in known])}"
    if found := re.search(r"unrecognized arguments: (.+)", message):
        return f"unknown option {found[1]}; see --help"
    if found := re.search(r"the following arguments are required: ([\w.]+(?:, [\w.]+)*)", message):
        options = ", ".join(f"--{'.'.join([*keys, name])}" for name in found[1].split(", "))
        return f"{options}: missing; give it on the command line or in a --config file"
    if found := re.search(r"Key \"?'?([\w.]+)\"?'? is not expected", message):
        return f"{where}the key {found[1]!r} is unknown; see --help for the known ones"
    expected = list(dict.fromkeys(re.findall(r"Expected a <class '([\w.]+)'>", message)))
    given = re.findall(r"Given value: (.+)", message)
    value = re.sub(r"^NestedArg\(key='[^']*', val='?(.*?)'?\)$", r"\1", given[-1].strip())[:200] if given else ""
    if base := re.search(r"does not correspond to a subclass of (\w+)", message):
        return f"{where}{value} is not a subclass of {base[1]}; derive it from it"
    if choices := re.search(r"Expected a typing\.Literal\[([^\]]*)\]", message):
        return f"{where}expected one of {choices[1]}, got {value}"
    if expected and given:
        wanted = " or ".join("null" if e == "NoneType" else e for e in expected)
        return f"{where}expected {wanted}, got {value}"
    lines = [re.sub(r"\s+", " ", line).strip(" -") for line in message.splitlines()]
    return "; ".join(line for line in lines if line)[:400]


def _suggest(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=2)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; known are {', '.join(sorted(known))}" if known else "; see --help"


def _subclasses(base: type) -> list[type]:
    """All public subclasses, however deep, that are lgx's own or the user's."""
    found: list[type] = []
    subclass: type
    for subclass in base.__subclasses__():
        if not inspect.isabstract(subclass) and not subclass.__module__.startswith("lightning"):
            found.append(subclass)
        found += _subclasses(subclass)
    return list(dict.fromkeys(found))


def _options(class_name: str, classes: list[type]) -> list[str]:
    """Names of the constructor arguments of the class of that name, inherited ones too."""
    for candidate in classes:
        if candidate.__name__ == class_name:
            constructors = [vars(c)["__init__"] for c in candidate.__mro__ if "__init__" in vars(c)]
            names = dict.fromkeys(name for c in constructors for name in inspect.signature(c).parameters)
            return [name for name in names if name not in ("self", "args", "kwargs")]
    return []
