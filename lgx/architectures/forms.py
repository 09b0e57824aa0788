"""Forms of ViTs: the properties other than sizes that networks of one family share, as timm defines them.

A form is the name of a timm model, whose sizes are ignored (``vit_small_patch14_dinov2``). The empty text is the plain
ViT. So only timm defines the structure of a family.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, cast

import timm
from timm.models import is_model_in_modules
from timm.models.eva import Eva
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from lgx.architectures.building import building_on
from lgx.core.schema import shortened
from lgx.errors import UserError
from lgx.host.failures import foreign_errors

ViTNetwork = VisionTransformer | Eva
"""timm's networks that a form can describe; its ``VisionTransformerDistilled`` is a ``VisionTransformer``."""

MODULES = ("vision_transformer", "deit", "eva")
"""Modules of timm whose models can be forms."""

_ONLY_AT_START = frozenset({"init_values", "weight_init_mode", "fix_init", "head_init_scale"})
"""Attributes of timm's modules that affect only random initialization."""

_ERRORS = (RuntimeError, AssertionError, TypeError, ValueError, ZeroDivisionError)


def check_form(form: str) -> None:
    """Refuse a form that is not the name of a ViT of timm."""
    if not is_model_in_modules(form, MODULES):
        raise UserError(
            f"architecture: form must be the name of a ViT of timm, e.g. vit_small_patch14_dinov2 (timm.list_models "
            f"lists them), got {shortened(form)}"
        )


def build_form(form: str, device: str | None, sizes: Mapping[str, Any]) -> ViTNetwork:
    """Build a network of a form with timm's own random initialization.

    Args:
        form: The form, not empty.
        device: ``meta`` builds shapes without memory.
        sizes: Further arguments of timm's network class: ``depth``, ``embed_dim``, ``img_size``, ...
    """
    remedy = "choose other sizes or another form"
    with foreign_errors(f"architecture of form {form}", "timm cannot build it", remedy, _ERRORS), building_on(device):
        return cast(ViTNetwork, timm.create_model(form, pretrained=False, **sizes))


@cache
def meta_network(form: str, sizes: tuple[tuple[str, Any], ...]) -> ViTNetwork:
    """The network of :func:`build_form` on the meta device; do not change it, because it is cached."""
    return build_form(form, "meta", dict(sizes))


_SAMPLE_SIZES = tuple(
    {"depth": 1, "embed_dim": 128, "num_heads": 2, "mlp_ratio": 4.0, "patch_size": 16, "img_size": 32}.items()
)


def same_form(one: str, other: str) -> bool:
    """Whether two forms differ only in their names, so that networks of equal sizes are equal."""
    if one == other:
        return True
    if not (one and other):  # the plain ViT has its own, shorter name
        return False
    return difference(meta_network(one, _SAMPLE_SIZES), meta_network(other, _SAMPLE_SIZES)) is None


def difference(ours: nn.Module, theirs: nn.Module) -> str | None:
    """Compare two networks module by module: types, plain attributes, shapes of parameters and buffers.

    The types of the networks themselves do not count, so that a subclass with another ``forward_head`` passes.

    Returns:
        The first part of ``theirs`` that differs, in words; None if none differs.
    """
    expected, modules = dict(ours.named_modules()), dict(theirs.named_modules())
    for path, module in modules.items():
        name = path or "network"
        kind = type(module).__name__
        if path not in expected or (path and type(expected[path]) is not type(module)):
            return f"{name} is a {kind}"
        wanted, built = _facts(expected[path]), _facts(module)
        wrong = next((key for key in built.keys() | wanted.keys() if wanted.get(key) != built.get(key)), None)
        if wrong:
            return f"{name} has {wrong} {built.get(wrong)}, not {wanted.get(wrong)}"
    missing = next((path for path in expected if path not in modules), None)
    return f"{missing} is missing" if missing else None


def _facts(module: nn.Module) -> dict[str, Any]:
    plain = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and name != "training" and name not in _ONLY_AT_START
        and isinstance(value, bool | int | float | str | tuple | None)
    }  # fmt: skip
    tensors = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
    return plain | {name: tuple(value.shape) for name, value in tensors}
