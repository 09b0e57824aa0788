"""Sizes that a start cannot give, known before any run."""

from pathlib import Path
from typing import Any

from lgx.architectures import ViTArchitecture, parse_any_architecture
from lgx.arena.arena_file import Arena
from lgx.errors import UserError
from lgx.initialization import Initializer, Sizes
from lgx.methods import registry

_INITIALIZER = "model.initializer"


def find_refusals(arena: Arena) -> dict[tuple[str, str], str]:
    """Why a start cannot give a size: start and size -> the reason.

    Starts are asked whose source is outside of the arena and exists; the others refuse when their runs start.

    Args:
        arena: The arena.
    """
    found = {}
    for start in arena.starts:
        initializer = _initializer_of(arena, start)
        try:
            sizes = initializer.sizes() if initializer else None
        except (UserError, TypeError):
            continue
        for size in arena.sizes_of(start) if sizes else ():
            spec = arena.content["sizes"][size].get("model.arch")
            architecture = parse_any_architecture(spec) if isinstance(spec, str) else None
            if sizes and isinstance(architecture, ViTArchitecture) and (reason := misfit(sizes, architecture)):
                found[start, size] = reason
    return found


def _initializer_of(arena: Arena, start: str) -> Initializer | None:
    options = arena.content["starts"][start].get("options") or {}
    kind = registry.initializer_classes().get(str(options.get(_INITIALIZER)))
    arguments: dict[str, Any] = {
        key.removeprefix(f"{_INITIALIZER}."): value
        for key, value in options.items()
        if key.startswith(f"{_INITIALIZER}.")
    }
    source = arguments.get("source")
    if kind is None or not kind.reads_source or source is None or not Path(source).exists():
        return None
    try:
        return kind(**arguments)
    except (UserError, TypeError):
        return None


def misfit(sizes: Sizes, architecture: ViTArchitecture) -> str:
    """Why an architecture is none of these sizes; empty if it is one of them.

    Of widths only the largest counts: the smallest one of ``Sizes`` is that of a head, which a descendant may halve.
    """
    for name, (least, most) in (
        ("depth", sizes.depth), ("embed_dim", sizes.embed_dim), ("mlp_ratio", sizes.mlp_ratio)
    ):  # fmt: skip
        value, fixed = getattr(architecture, name), least == most
        if value > most or (value < least and (fixed or name == "depth")):
            return f"refused: {name} {value:g}, gives {least:g}{'' if fixed else f' to {most:g}'}"
    return ""
