"""The papers' names of architectures, and specs like ``depth=6,embed_dim=384,num_heads=6``."""

import difflib
from dataclasses import fields
from typing import Any

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


def name_of(architecture: ViTArchitecture) -> str | None:
    """The first of the papers' names that fits, whatever the class count; None where none does."""
    plain = architecture.replace(num_classes=1000)
    return next((name for name, named in NAMES.items() if named == plain), None)


def parse_architecture(text: str, **overrides: Any) -> ViTArchitecture:
    """Read a name (``6-Small``) or a spec (``depth=6,embed_dim=384,num_heads=6``), or both.

    ``6-Small,img_size=64,patch_size=8`` starts from the name; missing keys of a spec take
    :class:`ViTArchitecture`'s defaults. ``stages=3-3-4-3-3`` shares layers and implies the depth.

    Args:
        text: Name or spec.
        overrides: Values that win over the text, e.g. ``num_classes=10``.

    Raises:
        UserError: If the name or a key is unknown or a value is malformed.
    """
    first, *rest = [part.strip() for part in text.split(",")]
    values: dict[str, Any] = {}
    if "=" in first:
        rest = [first, *rest]
    elif first in NAMES:
        values = NAMES[first].to_dict()
    else:
        close = difflib.get_close_matches(first, NAMES, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else "for example 6-Small or Des-B-12,"
        raise UserError(
            f"architecture {first!r} is unknown; {hint} or give a spec such as depth=6,embed_dim=384,num_heads=6"
        )
    types = {field.name: field.type for field in fields(ViTArchitecture)}
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
    return ViTArchitecture.from_dict({**values, **overrides})
