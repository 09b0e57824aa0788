"""List timm's pretrained ViTs, and say of each whether lgx reads it, and why not."""

from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache

import timm

from lgx.architectures.describing import Description, describe_vit
from lgx.architectures.forms import MODULES
from lgx.architectures.meta_device import building_on
from lgx.host.failures import reason_of

FAMILIES = (*MODULES, "beit", "naflexvit", "vision_transformer_hybrid", "vision_transformer_relpos")
"""Modules of timm whose models are ViTs or their relatives."""


@dataclass(frozen=True)
class Backbone:
    """A pretrained configuration of timm.

    Attributes:
        name: Its name, e.g. ``vit_small_patch14_dinov2.lvd142m``.
        is_read: Whether lgx reads it as an ancestor.
        is_predicted: Whether hypernetworks can predict networks of its form.
        parameters: Number of parameters; None if timm cannot build it without memory.
        img_size: Height and width of its images, pixels; None where timm states none.
        license: License of its weights, as timm states it; None where it states none.
        reason: Why lgx does not read it; empty where it does.
    """

    name: str
    is_read: bool
    is_predicted: bool
    parameters: int | None
    img_size: tuple[int, int] | None
    license: str | None
    reason: str


def names_of_backbones(pattern: str = "") -> list[str]:
    """Names of timm's pretrained ViTs.

    Args:
        pattern: A part of the name, or a pattern with ``*`` for all of it; empty selects all.
    """
    names = sorted({name for family in FAMILIES for name in timm.list_models(module=family, pretrained=True)})
    return [name for name in names if pattern in name or fnmatch(name, pattern)]


def describe_backbone(name: str) -> Backbone:
    """Describe a pretrained ViT of timm; models are built without memory, and each once for all of its weights.

    Args:
        name: Its name, see :func:`names_of_backbones`.
    """
    parameters, found = _structure(name.partition(".")[0])
    config = timm.get_pretrained_cfg(name)
    _, height, width = config.input_size if config is not None else (0, 0, 0)
    return Backbone(
        name=name,
        is_read=found.architecture is not None,
        is_predicted=found.architecture is not None and not found.architecture.form,
        parameters=parameters,
        img_size=(height, width) if height else None,
        license=config.license if config is not None else None,
        reason=found.reason,
    )


@cache
def _structure(model: str) -> tuple[int | None, Description]:
    """Number of parameters and description of a model, whatever its weights."""
    try:
        with building_on("meta"):
            network = timm.create_model(model, pretrained=False)
            return sum(parameter.numel() for parameter in network.parameters()), describe_vit(network)
    except Exception as error:  # timm builds some models on real devices only
        return None, Description(None, f"timm cannot build it without memory ({reason_of(error, 100)})")
