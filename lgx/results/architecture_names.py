"""Read depths from the names of architectures, sort the names, and shorten them."""

import re
from collections import Counter
from collections.abc import Iterable

_DEPTH = re.compile(r"\bdepth=(\d+),?|^(\d+)(?=-[^=]+$)|(?<=-)(\d+)$")


def depth_of(architecture: str) -> int | None:
    """Number of layers that a name states (``6-Small``, ``Des-B-12``, ``depth=6,...``); None if it states none."""
    stated = _DEPTH.search(architecture)
    return int(next(filter(None, stated.groups()))) if stated else None


def family_of(architecture: str) -> str:
    """The name without its depth: ``Small``, ``Des-B``, ``embed_dim=64,...``."""
    return _DEPTH.sub("", architecture, count=1).strip("-,")


def architecture_order(name: str) -> tuple[list[str | int], int]:
    """Sort key: by family, then by depth; ``embed_dim=64`` comes before ``embed_dim=128``."""
    parts = re.split(r"(\d+)", family_of(name))
    return [int(part) if i % 2 else part for i, part in enumerate(parts)], depth_of(name) or 0


def short_names(architectures: Iterable[str]) -> dict[str, str]:
    """``6x192`` for the depth and width of an architecture; the whole name of one that they do not identify."""
    short = {name: _size(name) for name in architectures}
    counts = Counter(short.values())
    return {name: size if counts[size] == 1 else name for name, size in short.items()}


def _size(name: str) -> str:
    numbers = [re.search(rf"\b{key}=(\d+)", name) for key in ("depth", "embed_dim")]
    return "x".join(match[1] for match in numbers if match) if all(numbers) else name
