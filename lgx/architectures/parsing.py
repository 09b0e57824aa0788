"""Read architectures from names and specifications, e.g. ``6-Small`` or ``depth=6,embed_dim=384,num_heads=6``."""

import difflib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from lgx.architectures.base import DEFAULT_FAMILY, FAMILIES, NAMED, Architecture
from lgx.architectures.describing import describe_timm_model
from lgx.architectures.hf import HFArchitecture, described_network
from lgx.architectures.vit import ViTArchitecture, vit_only
from lgx.core.task import Kind
from lgx.errors import UserError

_TIMM = "timm:"
_EXAMPLE = "depth=6,embed_dim=384,num_heads=6"


def parse_architecture(text: str, **overrides: Any) -> ViTArchitecture:
    """Read an image model, as :func:`parse_any_architecture`; refuse a text model."""
    return vit_only(parse_any_architecture(text, **overrides), f"architecture {text!r}")


def parse_any_architecture(text: str, **overrides: Any) -> Architecture:
    """Read a name (``6-Small``, ``6-GPT2``), a specification (``depth=6,embed_dim=384,num_heads=6``), or both.

    ``6-Small,img_size=64,patch_size=8`` starts from the name. A missing key has the family's default.
    ``stages=3-3-4-3-3`` shares layers and implies the depth. A specification without a family is a ViT; for another
    family, it starts with the family's name: ``hf:depth=3,embed_dim=192,num_heads=3,max_len=128``.
    ``timm:vit_small_patch14_dinov2,depth=6`` starts from a ViT of timm, its form included, and
    ``hf:FOLDER,depth=4,embed_dim=192,num_heads=3`` from the configuration of a network of transformers.

    Args:
        text: Name or specification.
        overrides: Values that replace the text's, e.g. ``num_classes=10``.

    Raises:
        UserError: If the name or a key is unknown or a value is malformed.
    """
    prefix, rest = _split(text)
    sizes, equals, config = rest.partition(",config=")  # the last value of an hf: network, in which are commas
    first, *options = [part.strip() for part in sizes.split(",")]
    options += [f"config={config}"] if equals else []
    family = family_of_text(text)
    values = {}
    if first.startswith(_TIMM):
        described = describe_timm_model(first.removeprefix(_TIMM))
        if described.architecture is None:
            raise UserError(f"architecture {first}: {described.reason}")
        values = described.architecture.without_task().to_dict()
    elif "=" in first:
        options = [first, *options]
    elif isinstance(NAMED.get(first), family):
        values = NAMED[first].to_dict()
    elif family is HFArchitecture:
        values = described_network(first).without_task().to_dict()
    else:
        raise _unknown_name(first, [name for name, named in NAMED.items() if not prefix or isinstance(named, family)])
    return family.from_dict({**values, **_read_options(text, options, family), **overrides})


def parse_for(
    text: str, kind: Kind | None, num_classes: int | None = None, source: Architecture | None = None
) -> Architecture:
    """Read the architecture of a network for a kind of task.

    Args:
        text: Name or specification.
        kind: What is predicted; None leaves it to the text.
        num_classes: Classes of the head; None takes the text's.
        source: Architecture of the network that gives the weights: values that the text leaves open may come from it,
            and a specification without a family has the source's family.

    Raises:
        UserError: If the family cannot predict the kind, or the text is malformed.
    """
    if source is not None and source.family != DEFAULT_FAMILY and family_of_text(text).family == DEFAULT_FAMILY:
        text = f"{source.family}:{text}" if "=" in text.partition(",")[0] else text
    _check_kind(text, kind)
    overrides: dict[str, Any] = {}
    if source is not None and source.family == family_of_text(text).family:
        overrides |= source.inherited(text)
    if num_classes is not None:
        overrides["num_classes"] = num_classes
    if kind is not None and "kind" in (field.name for field in fields(family_of_text(text))):
        overrides["kind"] = kind
    return parse_any_architecture(text, **overrides)


def parse_like(text: str, base: Architecture) -> Architecture:
    """Read an architecture that has the task of ``base`` and, unless the text names them, its kind of inputs.

    Args:
        text: Name or specification.
        base: Gives kind and classes, and image size, patch size and channels, or longest text, vocabulary and type.
    """
    _check_kind(text, base.kind)
    shared = {key: getattr(base, key) for key in base.shared_keys if f"{key}=" not in text}
    return parse_any_architecture(text, num_classes=base.num_classes, kind=base.kind, **shared)


def architecture_from_dict(values: Mapping[str, Any]) -> Architecture:
    """Inverse of :meth:`Architecture.to_dict` of every family; without the key ``family`` it is a ViT."""
    family = values.get("family", DEFAULT_FAMILY)
    if not isinstance(family, str) or family not in FAMILIES:
        raise UserError(f"architecture: family {family!r} is unknown; known are {' and '.join(FAMILIES)}")
    return FAMILIES[family].from_dict(values)


def _read_options(text: str, options: list[str], family: type[Architecture]) -> dict[str, Any]:
    """The values of the ``key=value`` options of a specification."""
    values: dict[str, Any] = {}
    valid = [field.name for field in fields(family) if field.name != "kind"]  # the kind belongs to the task
    valid += family.short_keys
    keys = [option.partition("=")[0] for option in options]
    for option in sorted(options, key=lambda text: not text.startswith("stages=")):  # a depth must agree with them
        key, _, value = option.partition("=")
        if keys.count(key) > 1:
            raise UserError(f"architecture {text!r}: {key} is given twice; leave one out")
        if key not in valid:
            raise UserError(f"architecture {text!r}: unknown key {key!r}; known are {', '.join(valid)}")
        try:
            values |= family.parse_option(key, value)
        except ValueError:
            raise UserError(f"architecture {text!r}: {key} must be a number, got {value!r}") from None
    return values


def family_of_text(text: str) -> type[Architecture]:
    """The family of a name or specification; it need not be valid otherwise."""
    prefix, rest = _split(text)
    named = NAMED.get(rest.split(",")[0].strip())
    return FAMILIES[prefix] if prefix else type(named) if named else FAMILIES[DEFAULT_FAMILY]


def _split(text: str) -> tuple[str, str]:
    """The family that a specification starts with ("" where it names none), and the rest of it."""
    family, colon, rest = text.partition(":")
    return (family, rest) if colon and family in FAMILIES else ("", text)


def _unknown_name(name: str, names: list[str]) -> UserError:
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    examples = " or ".join(family.example for family in FAMILIES.values())
    hint = f"did you mean {' or '.join(close)}?" if close else f"for example {examples},"
    return UserError(
        f"architecture {name!r} is unknown; {hint} or give a specification such as {_EXAMPLE} (hf:{_EXAMPLE} for text)"
    )


def _check_kind(text: str, kind: Kind | None) -> None:
    if kind is None or kind in family_of_text(text).kinds:
        return
    fitting = next(family for family in reversed(FAMILIES.values()) if kind in family.kinds)  # the simplest is last
    reads, gets = ("images", "text") if kind in ("text", "language") else ("text", "images")
    raise UserError(
        f"architecture {text!r}: reads {reads}, but the task has {gets}; name a {fitting.label}, e.g. {fitting.example}"
    )
