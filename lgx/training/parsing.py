"""Parse command lines with jsonargparse: known classes, flags, one sentence for any mistake."""

import difflib
import importlib
import inspect
import logging
import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import yaml
from jsonargparse import (
    ActionConfigFile,
    ArgumentError,
    Namespace,
    get_loader,
    set_dumper,
    set_loader,
    set_parsing_settings,
)

from lgx.errors import UserError
from lgx.host.safety import read_yaml
from lgx.training.lightning_internals import option_strings

_PACKAGES = {
    "lgx.training.callbacks": "lgx", "lgx.components.optim": "lgx",
    "data_modules": "data_modules",
    "torchvision.transforms.v2": "torchvision.transforms.v2",
    "torch.optim": "torch.optim", "torch.optim.lr_scheduler": "torch.optim", "timm.optim": "timm.optim",
    "lightning.pytorch.accelerators": "lightning", "lightning.pytorch.callbacks": "lightning",
    "lightning.pytorch.loggers": "lightning", "lightning.pytorch.plugins": "lightning",
    "lightning.pytorch.plugins.environments": "lightning", "lightning.pytorch.plugins.io": "lightning",
    "lightning.pytorch.plugins.precision": "lightning", "lightning.pytorch.profilers": "lightning",
    "lightning.pytorch.strategies": "lightning",
}  # fmt: skip
"""Packages whose classes a configuration may name -> package in which such a class must be defined."""

KNOWN = (
    "lgx, data_modules, torch.optim, timm.optim, torchvision.transforms.v2, or lightning's callbacks, loggers, "
    "plugins, profilers, strategies"
)
"""The same, in words."""

_in_force: list[str] = []
"""The list last given to jsonargparse. Giving it again would take a tenth of the time of a short run."""


def restrict_imports() -> None:
    """Let configurations name the classes of known packages only: no functions, and no methods of the classes.

    jsonargparse imports the module of a class path before it checks the class. An option of a callable type would
    accept any function and its arguments, for example a function that loads pickles. In both cases a foreign
    configuration could run code. ``LGX_ALLOW_IMPORTS=mypackage,other`` also admits everything in these packages.
    """
    admitted = admitted_packages()
    if _in_force == ["*", *admitted]:
        return
    denied = ["*", *{*_in_force} - {*admitted}]  # jsonargparse keeps the list of an earlier call
    for known in known_classes().values():
        functions = [
            name
            for name, value in vars(known).items()
            if inspect.isroutine(value) or isinstance(value, classmethod | staticmethod)
        ]
        denied += [f"{known.__module__}.{known.__qualname__}.{name}" for name in functions]
    try:
        set_parsing_settings(import_path_denylist=denied, import_path_allowlist=[*known_paths(), *admitted])
    except ValueError as error:
        raise UserError(f"LGX_ALLOW_IMPORTS: {' '.join(str(error).split())}") from error
    _in_force[:] = ["*", *admitted]


def admitted_packages() -> list[str]:
    """The packages that ``LGX_ALLOW_IMPORTS`` names."""
    return [name.strip() for name in os.environ.get("LGX_ALLOW_IMPORTS", "").split(",") if name.strip()]


def denied(path: str) -> str:
    """The message about a class or function that no configuration may name."""
    package = path.partition(".")[0]
    return (
        f"importing {path} is not allowed; a class path names a class of {KNOWN}; "
        f"LGX_ALLOW_IMPORTS={package} also admits {package}, if you wrote it or trust it"
    )


@cache
def known_paths() -> dict[str, None]:
    """All paths of the classes that a configuration may name.

    Every package above its module may export a class. A saved configuration contains the shortest path.
    """
    modules = {known: known.__module__.split(".") for known in known_classes().values()}
    above = [
        ".".join([*names[:depth], known.__qualname__])
        for known, names in modules.items()
        for depth in range(1, len(names) + 1)
    ]
    return dict.fromkeys([*known_classes(), *above])


@cache
def known_classes() -> dict[str, type]:
    """The classes that a configuration may name: path -> class."""
    from lgx.methods import registry  # imports torch, which commands without class options do not need

    found: dict[str, type] = registry.method_classes() | registry.initializer_classes()
    known = {f"{value.__module__}.{name}": value for name, value in found.items()}
    known |= {f"lgx.methods.{name}": value for name, value in found.items() if value.__module__.startswith("lgx.")}
    return known | {
        f"{package}.{name}": value
        for package, home in _PACKAGES.items()
        for name, value in vars(importlib.import_module(package)).items()
        if inspect.isclass(value) and f"{value.__module__}.".startswith(f"{home}.") and not name.startswith("_")
    }


_jsonargparse_yaml = get_loader("yaml")
_CLASS_FIRST = "give the class before its options"
_KINDS = re.compile(r"\s+(Subclass types expect|- a (class path|dict) )")
"""Lines that list the forms of a class, the same for every mistake."""


def parse(parser: Any, argv: Sequence[str]) -> Namespace:
    """Parse a command line with a parser that was made with ``exit_on_error=False``.

    Args:
        parser: The parser.
        argv: The arguments; options may have hyphens in place of underscores.
    """
    set_loader("yaml", _load_yaml, (yaml.YAMLError,))
    # The layout of jsonargparse's own files, with keys in the order of the parser.
    layout: Any = {"default_flow_style": False, "allow_unicode": True, "sort_keys": False}
    set_dumper("yaml", lambda data: yaml.dump(data, Dumper=_Dumper, **layout))
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


LINKED = {"model.num_classes": "the data", "model.kind": "the data", "data.seed": "--seed_everything"}
"""Options that follow something else -> what."""


class ConfigFile(ActionConfigFile):
    """The option of a configuration file, which is named in the messages about it."""

    @staticmethod
    def apply_config(parser: Any, cfg: Namespace, dest: str, value: str) -> None:
        """Add the options of a file to the parsed ones."""
        if not isinstance(content := read_yaml(Path(value), "give a configuration file"), dict):
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


class DroppedOptions(logging.Handler):
    """Collects what jsonargparse says of options that it drops, because another class replaces theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: dict[str, None] = {}
        self.logger = logging.getLogger("lgx.dropped")
        self.logger.setLevel(logging.DEBUG)
        self.logger.propagate = False
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message, once."""
        if "discarding init_args" in str(record.msg):
            self.messages[record.getMessage()] = None


def _explain(message: str, options: Sequence[str]) -> str:
    """One sentence from a message of jsonargparse, which is an indented tree of all types that it has tried.

    The reason is the first of the deepest lines; the keys above it name the option.
    """
    lines = [line for line in message.splitlines() if line.strip() and not _KINDS.match(line)] or [message]
    deepest = max(range(len(lines)), key=lambda number: len(lines[number]) - len(lines[number].lstrip()))
    place = ".".join(re.findall(r'Parser key "([^"]+)"', "\n".join(lines[: deepest + 1])))
    reason = lines[deepest].rpartition("callable class: ")[2].partition(". Got value: Namespace")[0].strip(" -")[:400]
    if refused := re.search(r"Importing '([^']+)' is not allowed", message):
        of_base = refused[1] in ("lgx.methods.Method", "lgx.initialization.Initializer")
        reason = _CLASS_FIRST if of_base else denied(refused[1])
    elif unknown := re.match(r"Expected a dot import path string: (\w+)$", reason):
        names = sorted({name.rpartition(".")[2] for name in known_classes()})
        reason = f"class {unknown[1]!r} is unknown{_similar(unknown[1], names)}"
    elif reason.endswith("is abstract"):
        given = re.search(r"Given value: ([\w.]+)$", message, re.MULTILINE)
        reason = f"{reason}, got {given[1]}" if given else _CLASS_FIRST
    elif reason.endswith("is not accepted"):
        helps = [f"--{group}.help" for group in (place, place.partition(".")[0])]
        reason += f"; see {next((help for help in helps if help in options), '--help')}"
    elif reason.startswith("unrecognized arguments: "):
        name = reason.split()[2].partition("=")[0]
        same = [option for option in options if option.endswith(f".{name.lstrip('-')}")]
        reason += f"; did you mean {same[0]}?" if same else _similar(name, options)
    elif reason.startswith(("Expected", "Not")) and "Got value" not in reason:
        value = re.search(r"Given value: (?!NestedArg)(.+?)(\. Got value|\n|$)", message)
        reason += f", got {value[1]:.100}" if value else ""
    return f"{place}: {reason}" if place else reason


def _similar(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(close)}?" if close else ""


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes defaults such as those of Lightning's ``Timer`` as the texts that they are."""


def _represent_text(dumper: Any, text: str) -> Any:
    """A text as it is; in quotes where jsonargparse, unlike YAML 1.1, reads a number, such as 1e3."""
    plain = str.__str__(text)
    is_number = plain[:1] in "+-.0123456789" and not isinstance(_load_yaml(plain), str)
    return dumper.represent_scalar("tag:yaml.org,2002:str", plain, "'") if is_number else dumper.represent_str(plain)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_multi_representer(str, _represent_text)


def _load_yaml(text: str) -> Any:
    try:
        value = _jsonargparse_yaml(text)
        is_word = "\n" not in text and text[:1] not in ("'", '"')  # a word has no comments, tags and anchors
        is_lost = isinstance(value, str) or (value is None and text.strip().lower() not in ("", "~", "null"))
        return text.strip() if is_word and is_lost else value
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits
        raise yaml.YAMLError(str(error)) from error
