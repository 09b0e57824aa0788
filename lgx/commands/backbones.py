"""``lgx backbones``: timm's pretrained ViTs that lgx reads."""

from fnmatch import fnmatch
from functools import cache

import timm

from lgx.architectures.building import building_on
from lgx.architectures.describing import Description, describe_vit
from lgx.architectures.forms import MODULES
from lgx.errors import UserError
from lgx.host.failures import reason_of

FAMILIES = (*MODULES, "beit", "naflexvit", "vision_transformer_hybrid", "vision_transformer_relpos")
"""Modules of timm whose models are ViTs or their relatives."""


def backbones(pattern: str) -> None:
    """List timm's pretrained ViTs: whether lgx reads each as an ancestor, its size, image size and license.

    Models are built without memory for their weights. `lgx backbones "*"` lists all in some minutes.

    Example: lgx backbones dino

    Args:
        pattern: Part of the name, e.g. dino, or a pattern for the whole name, e.g. "vit_*".
    """
    names = names_of_backbones(pattern)
    if not names:
        others = timm.list_models(f"*{pattern}*", pretrained=True)
        reason = "is not a ViT, and lgx reads only ViTs" if others else "timm has no pretrained ViT of that name"
        raise UserError(f"{pattern[:100]}: {reason}; `lgx backbones '*'` lists all")
    width = max(map(len, names))
    print(f"{'backbone':<{width}}  read  parameters     px  license")
    for name in names:
        parameters, description = describe_backbone(name.partition(".")[0])
        config = timm.get_pretrained_cfg(name)
        size = f"{parameters / 1e6:.1f} M" if parameters is not None else "unknown"
        pixels, license_ = (max(config.input_size[1:]), config.license) if config else ("-", None)
        read = "no"
        note = description.reason
        if description.architecture is not None:
            read = "yes"
            note = "" if description.architecture.form else "also predicted by hypernetworks"
        print(f"{name:<{width}}  {read:<4}  {size:>10}  {pixels:>5}  {license_ or 'unknown'}{note and f'  ({note})'}")


def names_of_backbones(pattern: str) -> list[str]:
    """Names of timm's pretrained ViTs that hold a text or match a pattern."""
    names = sorted({name for family in FAMILIES for name in timm.list_models(module=family, pretrained=True)})
    return [name for name in names if pattern in name or fnmatch(name, pattern)]


@cache
def describe_backbone(model: str) -> tuple[int | None, Description]:
    """Number of parameters and description of a model of timm, built without memory for its weights."""
    try:
        with building_on("meta"):
            network = timm.create_model(model, pretrained=False)
            return sum(parameter.numel() for parameter in network.parameters()), describe_vit(network)
    except Exception as error:  # timm builds some models on real devices only
        return None, Description(None, f"timm cannot build it without memory ({reason_of(error, 100)})")
