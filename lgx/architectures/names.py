"""The papers' names of architectures, and specs like ``depth=6,embed_dim=384,num_heads=6``."""

import difflib
from dataclasses import fields
from typing import Any

from lgx.architectures.family import Architecture
from lgx.architectures.gpt2 import FAMILY, GPT2Architecture
from lgx.architectures.vit import ViTArchitecture
from lgx.core.batch import Kind
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


def name_of(architecture: Architecture) -> str:
    """The papers' name where there is one (``6-Small``, ``6-GPT2``), else the spec of :meth:`Architecture.spec`."""
    return architecture.name


def vit_name_of(architecture: ViTArchitecture) -> str | None:
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
    family = _family_of(text)
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


def parse_for(text: str, kind: Kind | None, num_classes: int | None = None) -> Architecture:
    """Read the architecture of a network that is for a kind of task.

    Args:
        text: Name or spec.
        kind: What is predicted; None leaves it to the text.
        num_classes: Classes of the head; None takes the text's.

    Raises:
        UserError: As :func:`parse_any_architecture`, or if it reads text where images are given, or images for text.
    """
    _check_kind(text, kind)
    overrides: dict[str, Any] = {} if num_classes is None else {"num_classes": num_classes}
    if kind not in (None, "text"):
        overrides["kind"] = kind
    return parse_any_architecture(text, **overrides)


def parse_like(text: str, base: Architecture) -> Architecture:
    """Read an architecture that has the classes of ``base`` and, unless the text names them, its kind of inputs.

    Args:
        text: Name or spec.
        base: Gives classes, and image size, patch size and channels, or longest text and vocabulary.

    Raises:
        UserError: As :func:`parse_any_architecture`, or if one reads text and the other images.
    """
    _check_kind(text, base.kind)
    shared = {key: getattr(base, key) for key in _INPUTS[type(base)] if f"{key}=" not in text}
    return parse_any_architecture(text, num_classes=base.num_classes, **shared)


_INPUTS: dict[type[Architecture], tuple[str, ...]] = {
    ViTArchitecture: ("img_size", "patch_size", "in_chans"),
    GPT2Architecture: ("max_len", "vocab_size"),
}


def _check_kind(text: str, kind: Kind | None) -> None:
    if kind is not None and (_family_of(text) is GPT2Architecture) != (kind == "text"):
        raise UserError(
            f"architecture {text!r}: reads images, but text is given; name a GPT-2, e.g. 6-GPT2"
            if kind == "text"
            else f"architecture {text!r}: reads text, but images are given; name a ViT, e.g. 6-Small"
        )


def _family_of(text: str) -> type[Architecture]:
    is_gpt2 = text.startswith(f"{FAMILY}:") or text.split(",")[0].strip() in GPT2_NAMES
    return GPT2Architecture if is_gpt2 else ViTArchitecture
