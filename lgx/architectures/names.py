"""The papers' names of architectures, and specs like ``depth=6,embed_dim=384,num_heads=6``."""

import difflib
from dataclasses import fields
from typing import Any

from lgx.architectures.family import Architecture
from lgx.architectures.gpt2 import FAMILY, GPT2Architecture
from lgx.architectures.vit import ViTArchitecture
from lgx.errors import UserError

_WIDTHS = {"Tiny": (192, 3), "Small": (384, 6), "Base": (768, 12)}
_LETTERS = {"T": "Tiny", "S": "Small", "B": "Base"}
_AUX_STAGES = (3, 3, 4, 3, 3)


def _names() -> dict[str, ViTArchitecture]:
    names = {}
    for size, (embed_dim, num_heads) in _WIDTHS.items():
        for depth in range(1, 25):
            names[f"{depth}-{size}"] = ViTArchitecture(depth, embed_dim, num_heads)
    for letter, size in _LETTERS.items():
        embed_dim, num_heads = _WIDTHS[size]
        for depth in range(1, 25):
            names[f"Des-{letter}-{depth}"] = ViTArchitecture(depth, embed_dim, num_heads)
        names[f"Aux-{letter}"] = ViTArchitecture(sum(_AUX_STAGES), embed_dim, num_heads, stages=_AUX_STAGES)
    return names


NAMES: dict[str, ViTArchitecture] = _names()
"""``12-Base`` (TAL), ``Des-B-12`` and ``Aux-B`` (SWS: 5 stages of 3, 3, 4, 3, 3 layers). 224 px, 1000 classes."""


GPT2_NAMES: dict[str, GPT2Architecture] = {f"{depth}-GPT2": GPT2Architecture(depth) for depth in range(1, 25)}
"""``3-GPT2`` (TAL): GPT-2 small, 768 wide with 12 heads, at any depth. 1024 tokens, 2 classes."""


def name_of(architecture: ViTArchitecture) -> str | None:
    """The first of the papers' names that fits, whatever the class count; None where none does."""
    plain = architecture.replace(num_classes=1000)
    return next((name for name, named in NAMES.items() if named == plain), None)


def gpt2_name_of(architecture: GPT2Architecture) -> str | None:
    """The same for GPT-2s."""
    plain = architecture.replace(num_classes=GPT2Architecture().num_classes)
    return next((name for name, named in GPT2_NAMES.items() if named == plain), None)


def parse_architecture(text: str, **overrides: Any) -> ViTArchitecture:
    """Read an image model: what :func:`parse_any_architecture` reads, but no text model.

    Raises:
        UserError: If the name or a key is unknown, a value is malformed, or it is a text model.
    """
    architecture = parse_any_architecture(text, **overrides)
    if not isinstance(architecture, ViTArchitecture):
        raise UserError(
            f"architecture {text!r}: reads text, an image model is needed here; "
            f"for example 6-Small or depth=6,embed_dim=384,num_heads=6"
        )
    return architecture


def parse_any_architecture(text: str, **overrides: Any) -> Architecture:
    """Read a name (``6-Small``, ``6-GPT2``) or a spec (``depth=6,embed_dim=384,num_heads=6``), or both.

    ``6-Small,img_size=64,patch_size=8`` starts from the name; missing keys of a spec take
    :class:`ViTArchitecture`'s defaults. ``stages=3-3-4-3-3`` shares layers and implies the depth. A spec that starts
    with ``gpt2:`` is of a :class:`GPT2Architecture`: ``gpt2:depth=3,embed_dim=192,num_heads=3,max_len=128``.

    Args:
        text: Name or spec.
        overrides: Values that win over the text, e.g. ``num_classes=10``.

    Raises:
        UserError: If the name or a key is unknown or a value is malformed.
    """
    first, *rest = [part.strip() for part in text.removeprefix(f"{FAMILY}:").split(",")]
    family: type[ViTArchitecture | GPT2Architecture] = ViTArchitecture
    if text.startswith(f"{FAMILY}:") or first in GPT2_NAMES:
        family = GPT2Architecture
    values: dict[str, Any] = {}
    if "=" in first:
        rest = [first, *rest]
    elif first in NAMES and family is ViTArchitecture:
        values = NAMES[first].to_dict()
    elif first in GPT2_NAMES:
        values = GPT2_NAMES[first].to_dict()
    else:
        known = [*GPT2_NAMES] if text != first and family is GPT2Architecture else [*NAMES, *GPT2_NAMES]
        close = difflib.get_close_matches(first, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else "for example 6-Small, Des-B-12 or 6-GPT2,"
        spec = "depth=6,embed_dim=384,num_heads=6"
        raise UserError(
            f"architecture {first!r} is unknown; {hint} or give a spec such as {spec} (gpt2:{spec} for text)"
        )
    types = {field.name: field.type for field in fields(family) if field.name != "kind"}  # which is the task's
    for part in rest:
        key, _, value = part.partition("=")
        if key not in types:
            raise UserError(f"architecture {text!r}: unknown key {key!r}; known are {', '.join(types)}")
        try:
            if key == "stages":
                values[key] = tuple(int(v) for v in value.split("-"))
                values["depth"] = sum(values[key])
            else:
                values[key] = float(value) if key == "mlp_ratio" else int(value)
        except ValueError:
            raise UserError(f"architecture {text!r}: {key} must be a number, got {value!r}") from None
    return family.from_dict({**values, **overrides})
