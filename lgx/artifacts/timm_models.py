"""Load timm's models, and describe those that are ViTs."""

from pathlib import Path
from typing import Any

import timm
from torch import nn

from lgx.architectures.describing import Description, describe_vit
from lgx.artifacts.timm_hub import cached_weights
from lgx.errors import UserError
from lgx.host.failures import timm_errors

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def check_known(name: str) -> None:
    """Refuse a name that timm does not know.

    Raises:
        UserError: If there is no such model, or it is a file of an unknown kind.
    """
    if not timm.is_model(name.split(".")[0]):
        if Path(name).is_file():
            raise UserError(f"{name}: unknown kind of file; give a checkpoint, a learngene file or a model folder")
        raise UserError(f"{name}: not a file, a folder or a model that timm knows (see timm.list_models())")


def load_timm(name: str) -> tuple[nn.Module, Description, tuple[float, ...], tuple[float, ...]]:
    """Load a pretrained model with timm.

    Args:
        name: A timm model name, or ``hf-hub:…`` or ``local-dir:…``.

    Returns:
        The model in eval mode; its description; the per-channel mean and standard deviation
        of its inputs.

    Raises:
        UserError: If timm cannot load it.
    """
    cached = None if name.startswith("local-dir:") else cached_weights(name)
    known, overlay = name, None
    if cached is not None:  # the hub is out of reach
        known, overlay = (f"local-dir:{cached.parent}", None) if ":" in name else (name, {"file": str(cached)})
    with timm_errors(name):
        model: Any = timm.create_model(known, pretrained=True, pretrained_cfg_overlay=overlay).eval()
        return model, describe_vit(model), *normalization_of(model)


def normalization_of(model: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Per-channel mean and standard deviation of the inputs of a model of timm; ImageNet's where it says none."""
    config = model.pretrained_cfg or {}
    return tuple(config.get("mean") or IMAGENET_MEAN), tuple(config.get("std") or IMAGENET_STD)
