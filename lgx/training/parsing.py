"""Parse command lines with jsonargparse: known classes, flags, one sentence for any mistake."""

import difflib
import importlib
import inspect
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

import yaml
from jsonargparse import ArgumentError, Namespace, get_loader, set_dumper, set_loader, set_parsing_settings

from lgx.errors import UserError
from lgx.host import launcher
from lgx.host.safety import load_plain, read_yaml
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


_CLASSES = (
    "model", "data", "model.optimizer", "model.scheduler", "model.initializer", "trainer.logger", "trainer.callbacks",
)  # fmt: skip
"""Options that take a class, and have no default."""
_LINKED = {"model.num_classes": "the data", "model.kind": "the data", "data.seed": "--seed_everything"}
"""Options that follow something else -> what."""
_REPLACED = ("model.initializer", "data")
"""What is replaced as a whole: a start, a data set. Its dropped options are printed, those of other classes refused."""


def check_dropped(written: Sequence[tuple[str, str, Any]], config: Namespace) -> None:
    """Refuse written options that the chosen class does not have; print those of a replaced start or data set.

    A value that is the default of a class for which it was written passes: the ``config.yaml`` of a run holds them all.

    Args:
        written: Place, name and value of each option, see :func:`~lgx.training.parsing.written_options`.
        config: What it was parsed to.
    """
    last: dict[str, tuple[str, Any]] = {}
    chosen: dict[str, set[str]] = defaultdict(set)
    for place, key, value in written:
        option = key.removesuffix(".class_path")
        if value in (None, "null"):  # for jsonargparse, too, this ends what was written below the option
            last = {name: known for name, known in last.items() if not name.startswith(f"{option}.")}
        chosen[option].add(str(value).rpartition(".")[2])
        last[option] = place, value
    final, dropped = dict(_branches(config.as_dict())), set[str]()
    for option, (place, value) in last.items():
        if option in _LINKED:
            raise UserError(f"{place}{option}: follows {_LINKED[option]}; leave it out")
        lost = _lost(option, value, final, chosen)
        owner, _, name = lost.rpartition(".")
        if not lost or lost in dropped or _is_default(name, value, chosen[owner]):
            continue
        dropped.add(lost)
        kind = str(final[f"{owner}.class_path"]).rpartition(".")[2]
        shown = value.get("class_path", value) if isinstance(value, dict) else value
        text = f"{place}{lost}: {kind} does not take {name}={shown!s:.100}"
        if owner not in _REPLACED:
            raise UserError(f"{text}; remove it, or clear all options of {owner} by --{owner} null before the class")
        if launcher.rank() == 0:
            print(f"dropped   {text}", file=sys.stderr)


def check_classes(written: Sequence[tuple[str, str, Any]]) -> None:
    """Refuse unknown classes, and options of a class before it: jsonargparse takes them for options of its base."""
    chosen = set[str]()
    for place, key, value in written:
        option = key.removesuffix(".class_path")
        owner = next((name for name in _CLASSES if option.startswith(f"{name}.") and name not in chosen), None)
        if owner is not None and not option.endswith(".help"):
            raise UserError(f"{place}{option}: give the class before its options: --{owner} CLASS; see --{owner}.help")
        if option in _CLASSES and (not isinstance(value, dict) or "class_path" in value):
            chosen.add(option)
            _check_class(f"{place}{option}", str(value), f"--{option}.help")


def _check_class(place: str, path: str, help: str) -> None:
    is_path = all(part.isidentifier() for part in path.split(".")) and not path.endswith((".yaml", ".yml"))
    dot = "." in path
    if not is_path or admitted_packages() or path.lower() in ("true", "false", "null", "none"):
        return
    known = {name.rpartition(".")[2] for name in known_classes()}
    if not dot and path not in known:
        close = difflib.get_close_matches(path, sorted(known), n=2, cutoff=0.7)
        hint = f"did you mean {' or '.join(close)}?" if close else f"see {help}"
        raise UserError(f"{place}: class {path!r} is unknown; {hint}")
    if dot and path not in known_paths():
        raise UserError(f"{place}: {denied(path)}")


def _branches(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """All keys of a configuration as the command line spells them, also those of groups, and their values."""
    for key, value in values.items():
        place = above if key in ("init_args", "dict_kwargs") else f"{above}.{key}".lstrip(".")
        yield place, value
        if isinstance(value, Mapping):
            yield from _branches(value, place)


def _lost(option: str, value: Any, final: Mapping[str, Any], chosen: Mapping[str, set[str]]) -> str:
    """The option, or the group above it, that a class of the configuration does not have or take; empty if it does."""
    parts = option.split(".")
    for depth in range(1, len(parts)):
        owner, inner = ".".join(parts[:depth]), ".".join(parts[: depth + 1])
        if f"{owner}.class_path" in final and inner not in final:
            return inner
    is_other = isinstance(value, str) and isinstance(final.get(option), str) and value.strip() != final[option]
    # Of two classes with the same option, one may have other words for it.
    return option if is_other and len(chosen[option.rpartition(".")[0]]) > 1 else ""


def _is_default(name: str, value: Any, classes: set[str]) -> bool:
    """Whether a value says nothing, or is the default of an option in one of some classes."""
    kinds = {kind for kind in known_classes().values() if kind.__name__ in classes}
    signatures = [inspect.signature(base).parameters for kind in kinds for base in kind.__mro__[:-1]]
    found = [known[name].default for known in signatures if name in known]
    # A tuple is a list in a file.
    return value in (None, "", "null") or str(value) in [str([*d] if isinstance(d, tuple) else d) for d in found]


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
    # The layout of jsonargparse's own files, with keys in the order of the parser.
    layout: Any = {"default_flow_style": False, "allow_unicode": True, "sort_keys": False}
    set_dumper("yaml", lambda data: yaml.dump(data, Dumper=_Dumper, **layout))
    try:
        return cast(Namespace, parser.parse_args(underscored(argv)))
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


def written_options(argv: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
    """The options of a command line and of its files: file, if any; name without dashes and ``init_args``; value.

    Args:
        argv: The command line without the command.
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
            place, content = f"{value}: ", read_yaml(Path(value), "give a configuration file")
            if not isinstance(content, dict):
                raise UserError(f"{value}: holds no mapping from keys to values; give a configuration file")
        elif name and value.startswith("{"):
            with suppress(yaml.YAMLError, ValueError, RecursionError):  # which the parser reports
                content = load_plain(value)
        if isinstance(content, dict):
            for key, inner in _nested(content, name and f"{name}."):
                yield place, _NO_NAME.sub("", key), inner


def _nested(content: dict[Any, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if not _NO_NAME.fullmatch(f".{key}"):
            yield f"{above}{key}", value
        if isinstance(value, dict):
            yield from _nested(value, f"{above}{key}.")


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


def _load_yaml(text: str) -> Any:
    try:
        value = _jsonargparse_yaml(text)
        is_word = "\n" not in text and text[:1] not in ("'", '"')  # a word has no comments, tags and anchors
        is_lost = isinstance(value, str) or (value is None and text.strip().lower() not in ("", "~", "null"))
        return text.strip() if is_word and is_lost else value
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits
        raise yaml.YAMLError(str(error)) from error
