"""Read YAML of files that may come from anyone: a few lines of it can stand for any amount of data."""

import math
from pathlib import Path
from typing import Any

import yaml

from lgx.host.bounded_reading import read_at_most
from lgx.host.foreign import yaml_errors

LARGEST = 2**20
"""Most bytes of a file; the longest sweep of the papers has 20 thousand."""

DEEPEST, MOST = 100, 100_000
"""Most levels of nesting, and most values; a value behind an alias counts at every use."""

MOST_OPTIONS, LONGEST = 2_000, 64
"""Most values of a configuration, and most of a list in it: the time of the parser grows with the square of a list. A
configuration that a run saves has 300 values; the longest list of the experiments has 13."""


class TooLarge(yaml.YAMLError):
    """YAML that would exhaust the interpreter; the message says in which way."""


_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def check_yaml(text: str, most: int = MOST, longest: int = MOST) -> None:
    """Refuse YAML that would exhaust the interpreter: nested too deeply, too long, or multiplied by aliases.

    Numbers beyond 64 bits are refused, too: no option takes one, and each library fails on them in its own way.

    Args:
        text: The YAML.
        most: Most values.
        longest: Most values of one list.

    Raises:
        TooLarge: If it is refused.
        yaml.YAMLError: If it is not YAML.
    """
    if len(text) > LARGEST:
        raise TooLarge(f"more than {LARGEST:,} characters")
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []  # anchor, and values before it
    inside = [0.0]  # values of each open list
    values = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.NodeEvent):
            inside[-1] += 1
        if isinstance(event, yaml.CollectionStartEvent):
            inside.append(-math.inf if isinstance(event, yaml.MappingStartEvent) else 0)
            open_nodes.append((event.anchor, values))
            if event.anchor:
                sizes[event.anchor] = MOST  # an alias within itself
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            inside.pop()
            if anchor:
                sizes[anchor] = values - before
        elif isinstance(event, yaml.AliasEvent):
            values += sizes.get(event.anchor or "", 1)
        elif isinstance(event, yaml.ScalarEvent):
            if event.implicit[0] and len(event.value) > 19 and event.value.lstrip("+-").isdigit():
                raise TooLarge(f"a number of {len(event.value):,} digits")
            if len(event.value) > DEEPEST and event.value != text.strip():
                check_text(event.value, most, longest)
            if event.anchor:
                sizes[event.anchor] = 1
        values += isinstance(event, yaml.NodeEvent)
        if len(open_nodes) > DEEPEST:
            raise TooLarge(f"nested more than {DEEPEST} levels deep")
        if values > most:
            raise TooLarge(f"more than {most:,} values")
        if inside[-1] > longest:
            raise TooLarge(f"a list of more than {longest:,} values")


def check_text(text: str, most: int = MOST, longest: int = MOST) -> None:
    """Refuse a text that may be YAML, as :func:`check_yaml`: parsers also try to read texts as lists and mappings.

    Raises:
        TooLarge: If it is YAML that is refused.
    """
    try:
        check_yaml(text, most, longest)
    except TooLarge:
        raise
    except yaml.YAMLError:
        pass  # an ordinary text


def load_plain(text: str) -> Any:
    """Plain values of YAML that lgx has written or checked, with libyaml where it is installed: ten times as fast.

    Args:
        text: The YAML.
    """
    return yaml.load(text, Loader=_Loader)  # a loader of plain values only


def read_yaml(path: Path, remedy: str, most: int = MOST, longest: int = MOST) -> Any:
    """Read a YAML file of plain values.

    Args:
        path: The file.
        remedy: What the user can do if it cannot be read, for the message.
        most: Most values.
        longest: Most values of one list.

    Raises:
        UserError: If it cannot be read, is not YAML, or is refused by :func:`check_yaml`.
    """
    content = read_at_most(path, LARGEST + 1, remedy)
    with yaml_errors(path, remedy):
        text = content.decode()
        check_yaml(text, most, longest)
        return load_plain(text)
