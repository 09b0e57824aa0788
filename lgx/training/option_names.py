"""Refuse options and classes that do not exist before torch is imported, which takes seconds."""

import difflib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

from lgx.errors import UserError
from lgx.host.safety import read_yaml

TABLE = Path(__file__).with_suffix(".json")
"""Options of a run, and of each method and data module by the name of its class.

``python -m tests.training.test_option_names`` writes it.
"""
GROUPS = ("model", "data")
LIGHTNING = ("trainer", "checkpoint")
"""Groups whose options depend on Lightning's version."""
Option = tuple[str, str, str]
"""``FILE: `` or, of the command line, "", its name in at most two parts, and its value."""
LINKED = {"model.num_classes": "the data", "model.kind": "the data", "data.seed": "--seed_everything"}
"""Options that follow something else -> what."""


def check_options(argv: Sequence[str]) -> None:
    """Refuse a command line or a configuration file with an unknown option.

    Values, the options of an option's class, and classes of other packages are left to the parser.

    Args:
        argv: Arguments of a training command.

    Raises:
        UserError: If there is no such option or class, or a configuration file cannot be read.
    """
    table = json.loads(TABLE.read_text("utf-8"))
    options = [*_on_command_line(argv)]
    accepted = {*table["run"]}
    unchecked = set() if version("lightning") == table["lightning"] else {*LIGHTNING}
    paths = [option for option in options if option[1].endswith(".class_path")]
    for group in GROUPS:
        classes = {_short(path) for _, option, path in paths if option == f"{group}.class_path"}
        if len(classes) == 1 and classes <= {*table[group]} and not Path(*classes).is_file():
            accepted |= {f"{group}.{name}" for name in ("class_path", *table[group][classes.pop()])}
        else:
            unchecked.add(group)
    if not _may_be_foreign([path for _, _, path in paths]):
        for place, option, name in paths:
            group = option.partition(".")[0]
            if name not in table[group] and not Path(name).is_file():
                close = hint(name, table[group]) or "; see --help"
                raise UserError(f"{place}{group}: class {name!r} is unknown{close}")
    for place, option, _ in options:
        if option not in accepted and option.partition(".")[0] not in unchecked:
            dashes = "" if place else "--"
            close = hint(f"{dashes}{option}", [f"{dashes}{name}" for name in sorted(accepted - {*LINKED})])
            raise UserError(f"{place}{dashes}{option}: there is no such option{close}")


def hint(name: str, names: Iterable[str]) -> str:
    """``; did you mean …?`` with the name that ends in this one, or similar names of the same group."""
    same = [other for other in names if other.endswith(f".{name.lstrip('-')}")]
    group = name.rpartition(".")[0]
    near = [other for other in names if other.rpartition(".")[0] == group]
    close = same[:1] or difflib.get_close_matches(name, near, n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _short(path: str) -> str:
    return path.rpartition(".")[2] if path.startswith(("lgx.", "data_modules.")) else path


def _may_be_foreign(paths: Sequence[str]) -> bool:
    """Whether a short name may be of a class of a script, of another package, or of a module that a path imports."""
    return "torch" in sys.modules or bool(entry_points(group="lgx.methods")) or not all(map(str.isidentifier, paths))


def _on_command_line(argv: Sequence[str]) -> Iterator[Option]:
    words = iter(argv)
    for word in words:
        option, equals, value = word.partition("=")
        name = option.lstrip("-").replace("-", "_")
        if option == "--":
            return
        if option == "--config":
            yield from _in_file(value if equals else next(words, ""))
        elif word.startswith("-c"):
            yield from _in_file(word[2:].removeprefix("=") or next(words, ""))
        elif option in ("--model", "--data", "--model.class_path", "--data.class_path"):
            yield "", f"{name.partition('.')[0]}.class_path", value if equals else next(words, "")
        elif option.startswith("--") and " " not in option:
            yield from _named("", name, value)


def _in_file(file: str) -> Iterator[Option]:
    content = read_yaml(Path(file), "give a configuration file") if file else None
    place = f"{file}: "
    for group, options in content.items() if isinstance(content, dict) else ():
        if group == "config":  # another file, which the parser reads
            yield from ((place, f"{each}.class_path", "") for each in GROUPS)
        elif isinstance(options, dict) and group in (*GROUPS, *LIGHTNING):
            of_class = options.get("init_args")
            for name, value in (options | (of_class if isinstance(of_class, dict) else {})).items():
                yield from _named(place, f"{group}.{name}", value)
        elif options is not None:
            yield from _named(place, f"{group}.class_path" if group in GROUPS else str(group), options)


def _named(place: str, name: str, value: Any) -> Iterator[Option]:
    """The option that a name with dots belongs to; nothing for requests of help and for arguments without a name."""
    first, *rest = name.rstrip("+").split(".")
    parts = [first, *(part for part in rest if part != "init_args")]
    if "dict_kwargs" not in parts and parts[-1] != "help":
        yield place, ".".join(parts[:2]), str(value)
