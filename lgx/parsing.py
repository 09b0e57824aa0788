"""One way of reading arguments: mistakes become one sentence, and a configuration imports nothing foreign."""

import difflib
import inspect
import os
import re
from typing import Any

from jsonargparse import ArgumentError, Namespace, set_parsing_settings

from lgx.errors import UserError

ALLOWED_IMPORTS = ["lgx", "data_modules", "lightning", "torch.optim", "torch.nn", "torchmetrics", "timm"]


def restrict_imports() -> None:
    """Let configurations name classes of known packages only.

    A class path imports its module before anything checks the class, so a foreign configuration could run code.
    ``LGX_ALLOW_IMPORTS=mypackage,other`` admits a user's own classes.
    """
    own = [name for name in os.environ.get("LGX_ALLOW_IMPORTS", "").split(",") if name]
    set_parsing_settings(import_path_denylist=["*"], import_path_allowlist=[*ALLOWED_IMPORTS, *own])


def parse(parser: Any, argv: list[str]) -> Namespace:
    """Parse arguments with a parser that was made with ``exit_on_error=False``.

    Raises:
        UserError: For whatever is wrong with them, in one sentence.
    """
    restrict_imports()
    try:
        arguments: Namespace = parser.parse_args(argv)
        return arguments
    except ArgumentError as error:
        raise UserError(explain(str(error))) from error


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
            f"{where}importing {found[1]} is not allowed; class paths come from {', '.join(ALLOWED_IMPORTS)}, "
            f"and LGX_ALLOW_IMPORTS={package} admits a package of yours"
        )
    if found := re.search(r"Option '([^']*)' is not accepted", message):
        owner = re.findall(r"Problem with given class_path '([^']*)'", message)
        name = owner[-1].rsplit(".", 1)[-1] if owner else "this command"
        return f"{where}{found[1]!r} is no option of {name}{_suggest(found[1], _options(name, known))}"
    if found := re.search(r"Expected a dot import path string: (\S+)", message):
        return f"{where}class {found[1]!r} is unknown{_suggest(found[1], [c.__name__ for c in known])}"
    if found := re.search(r"unrecognized arguments: (.+)", message):
        return f"unknown option {found[1]}; see --help"
    if found := re.search(r"Key \"?'?([\w.]+)\"?'? is not expected", message):
        return f"{where}the key {found[1]!r} is unknown; see --help for the known ones"
    expected = list(dict.fromkeys(re.findall(r"Expected a <class '([\w.]+)'>", message)))
    given = re.findall(r"Given value: (.+)", message)
    value = re.sub(r"^NestedArg\(key='[^']*', val='?(.*?)'?\)$", r"\1", given[-1].strip()) if given else ""
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
