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
Option = tuple[str, str, Any]
"""Its file, "" for the command line, its name in at most two parts, and its value."""


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
    for group in GROUPS:
        paths = [str(value) for _, option, value in options if option == f"{group}.class_path"]
        classes = {path.rpartition(".")[2] if path.startswith(("lgx.", "data_modules.")) else path for path in paths}
        if classes <= {*table[group]} and len(classes) == 1:
            accepted |= {f"{group}.{name}" for name in ("class_path", *table[group][classes.pop()])}
            continue
        unchecked.add(group)
        may_be_foreign = "torch" in sys.modules or entry_points(group="lgx.methods")  # a script's, or a package's class
        for name in classes:
            if name.isidentifier() and name not in table[group] and not may_be_foreign:
                raise UserError(f"{group}: class {name!r} is unknown{hint(name, table[group]) or '; see --help'}")
    for file, option, _ in options:
        if option not in accepted and option.partition(".")[0] not in unchecked:
            place, dashes = (f"{file}: ", "") if file else ("", "--")
            close = hint(f"{dashes}{option}", [f"{dashes}{name}" for name in sorted(accepted)])
            raise UserError(f"{place}{dashes}{option}: there is no such option{close}")


def hint(name: str, names: Iterable[str]) -> str:
    """``; did you mean …?`` with the name that ends in this one, or similar names."""
    same = [other for other in names if other.endswith(f".{name.lstrip('-')}")]
    close = same[:1] or difflib.get_close_matches(name, names, n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _on_command_line(argv: Sequence[str]) -> Iterator[Option]:
    words = iter(argv)
    for word in words:
        option, equals, value = word.partition("=")
        if option == "--":
            return
        name = option.lstrip("-").replace("-", "_")
        if option in ("-c", "--config"):
            yield from _in_file(value if equals else next(words, ""))
        elif name in GROUPS:
            yield "", f"{name}.class_path", value if equals else next(words, "")
        elif option.startswith("--"):
            yield from _named("", name, value)


def _in_file(file: str) -> Iterator[Option]:
    content = read_yaml(Path(file), "give a configuration file")
    for group, options in content.items() if isinstance(content, dict) else ():
        if isinstance(options, dict) and group in (*GROUPS, *LIGHTNING):
            for name, value in (options | (options.get("init_args") or {})).items():
                yield from _named(file, f"{group}.{name}", value)
        elif options is not None:
            yield from _named(file, f"{group}.class_path" if group in GROUPS else str(group), options)


def _named(file: str, name: str, value: Any) -> Iterator[Option]:
    """The option that a name with dots belongs to; nothing for requests of help and for arguments without a name."""
    parts = [part for part in name.rstrip("+").split(".") if part != "init_args"]
    if "dict_kwargs" not in parts and parts[-1] != "help":
        yield file, ".".join(parts[:2]), value
