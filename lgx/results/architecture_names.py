"""Read depth and family from the names of architectures, sort the names, and shorten them."""

import re
from collections.abc import Sequence

_WIDTHS = ("Tiny", "T", "Small", "S", "Base", "B")
_DEPTHS = (
    r"depth=(?P<depth>\d+)(?P<rest>)",
    r"(?P<rest>\w+):depth=(?P<depth>\d+)",
    r"(?P<depth>\d+)-(?P<rest>[^=]+)",
    r"(?P<rest>[^=]+)-(?P<depth>\d+)",
)


def depth_of(architecture: str) -> int | None:
    """Number of layers that a name states (``6-Small``, ``Des-B-12``, ``depth=6,...``); None if it states none."""
    return _split(architecture)[0]


def family_of(architecture: str) -> str:
    """The name without its depth: ``Small``, ``Des-B``, ``embed_dim=64,...``."""
    return _split(architecture)[1]


def architecture_order(architecture: str) -> tuple[int, list[str | int], int, str]:
    """Sort key: by width if the name states it, then by depth."""
    family = family_of(architecture)
    width = next((i for i, word in enumerate(_WIDTHS) if word in re.split(r"[-,]", family)), -1)
    natural = [int(part) if i % 2 else part for i, part in enumerate(re.split(r"([0-9]+)", family))]
    return width, natural, depth_of(architecture) or 0, architecture


def short_names(architectures: Sequence[str]) -> tuple[dict[str, str], str]:
    """Leave out the parts that all specs have in common.

    Returns:
        The short names, and a sentence on the common parts; empty without common parts.
    """
    sizes = [architecture.partition(",config=")[0] for architecture in architectures]
    sizes = sizes if len({*sizes}) == len({*architectures}) else [*architectures]
    parts = [each.split(",") for each in sizes]
    common = [part for part in parts[0] if all(part in p for p in parts)] if len(parts) > 1 else []
    short = {a: ",".join(part for part in p if part not in common) for a, p in zip(architectures, parts, strict=True)}
    if not all(short.values()):
        return dict(zip(architectures, sizes, strict=True)), ""
    return short, f"all with {','.join(common)}" if common else ""


def _split(architecture: str) -> tuple[int | None, str]:
    parts = architecture.split(",")
    for i, part in enumerate(parts):
        for pattern in _DEPTHS:
            if match := re.fullmatch(pattern, part):
                rest = [*parts[:i], match["rest"], *parts[i + 1 :]]
                return int(match["depth"]), ",".join(part for part in rest if part)
    return None, architecture
