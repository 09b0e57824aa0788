"""YAML from others: looked through before it is built, because a few lines of it can stand for any amount of data."""

from pathlib import Path
from typing import Any

import yaml

from lgx.errors import UserError

LONGEST = 2**20
"""Bytes of a file; the longest sweep of the papers has 20 thousand."""

DEEPEST, MOST = 100, 100_000
"""Levels of nesting, and values, those behind an alias counted as often as they occur."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def check_yaml(text: str) -> None:
    """Refuse YAML that is nested too deeply, which would end the interpreter, or multiplies itself with aliases.

    Numbers beyond 64 bits are refused, too: no option is one, and each library fails on them in its own way.

    Args:
        text: The YAML.

    Raises:
        yaml.YAMLError: If it is, or is no YAML at all.
    """
    if len(text) > LONGEST:
        raise yaml.YAMLError(f"more than {LONGEST:,} characters")
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []  # anchor, and values before it
    values = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, values))
            if event.anchor:
                sizes[event.anchor] = MOST  # an alias within itself
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            if anchor:
                sizes[anchor] = values - before
        elif isinstance(event, yaml.AliasEvent):
            values += sizes.get(event.anchor or "", 1)
        elif isinstance(event, yaml.ScalarEvent):
            if event.implicit[0] and len(event.value) > 19 and event.value.lstrip("+-").isdigit():
                raise yaml.YAMLError(f"a number of {len(event.value):,} digits")
            if event.anchor:
                sizes[event.anchor] = 1
        values += isinstance(event, yaml.NodeEvent)
        if len(open_nodes) > DEEPEST or values > MOST:
            what = f"nested more than {DEEPEST} levels deep" if values <= MOST else f"more than {MOST:,} values"
            raise yaml.YAMLError(what)


def read_yaml(path: Path, remedy: str) -> Any:
    """Read a YAML file of plain values.

    Args:
        path: The file.
        remedy: What would help, for the message.

    Raises:
        UserError: If it cannot be read or is no YAML of reasonable size.
    """
    if not path.is_file():  # nor a pipe, nobody may ever write to it
        raise UserError(f"{path}: no such file; {remedy}")
    try:
        with path.open("rb") as file:
            text = file.read(LONGEST + 1).decode()
        check_yaml(text)
        return yaml.load(text, Loader=_Loader)  # one that makes plain values only
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; {remedy}") from error
    except (yaml.YAMLError, ValueError) as error:  # no UTF-8, no such day, a number of thousands of digits
        raise UserError(f"{path}: not valid YAML ({' '.join(str(error).split())[:200]}); {remedy}") from error
