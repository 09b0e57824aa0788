"""Describe timm's networks: determine sizes and form, and check the description by building the network again."""

from functools import cache
from typing import Any, NamedTuple

import timm
from timm.layers import Mlp, PatchEmbed
from timm.models.deit import VisionTransformerDistilled
from timm.models.eva import Eva, EvaBlock, EvaBlockPostNorm
from timm.models.vision_transformer import Block, ResPostBlock, VisionTransformer
from torch import nn

from lgx.architectures.building import building_on
from lgx.architectures.forms import ViTNetwork, difference
from lgx.architectures.vit import ViTArchitecture
from lgx.core.schema import shortened
from lgx.core.task import image_size
from lgx.errors import UserError

_BLOCKS = (Block, ResPostBlock, EvaBlock, EvaBlockPostNorm)


class Description(NamedTuple):
    """The description of a model.

    Attributes:
        architecture: The description; None for a model that cannot be described.
        reason: The part of the model that cannot be described; empty if there is a description.
    """

    architecture: ViTArchitecture | None
    reason: str = ""


def describe_vit(model: nn.Module) -> Description:
    """Describe a model of timm if it is a ViT of a form that lgx supports.

    The name is not used. Sizes and arguments are read from the model, the described network is built on the meta
    device, and every module must be equal.

    Args:
        model: Any model of timm, on any device.

    Returns:
        The architecture (for segmentation if the head reads every token), or the part without a description.
    """
    reason = _foreign_part(model)
    if reason:
        return Description(None, reason)
    network: Any = model
    base = str((getattr(network, "pretrained_cfg", None) or {}).get("architecture") or "")
    description = Description(None, "")
    for form in ("", base) if base else ("",):
        for ratio in _mlp_ratios(network):
            description = _describe_with_form(network, form, ratio)
            if description.architecture is not None:
                return description
    return description


@cache
def describe_timm_model(name: str) -> Description:
    """Describe a registered model of timm, with or without the tag of its weights, on the meta device."""
    if not timm.is_model(name):
        return Description(None, "timm does not have this model (timm.list_models names all)")
    try:
        with building_on("meta"):
            model = timm.create_model(name, pretrained=False)
    except Exception as error:  # timm builds some models on real devices only
        return Description(None, f"timm cannot build it without memory ({str(error)[:100]})")
    return describe_vit(model)


def _foreign_part(model: nn.Module) -> str:
    """The first part of a model that no form can describe; empty if all parts can be described."""
    if type(model) not in (VisionTransformer, VisionTransformerDistilled, Eva):
        return f"the network is a {type(model).__name__}, not a VisionTransformer or Eva of timm"
    network: Any = model
    patches = network.patch_embed
    if type(patches) is not PatchEmbed:
        return f"patch_embed is a {type(patches).__name__}, not one projection of patches"
    if len({*patches.patch_size}) > 1:
        return f"patch_embed cuts patches of {patches.patch_size} px, which are not square"
    wrong = next((block for block in network.blocks if type(block) not in _BLOCKS), None)
    if wrong:
        return f"blocks have a {type(wrong).__name__}"
    if getattr(network, "rope_mixed", False):
        return "rope is a RotaryEmbeddingMixed, whose frequencies are shared by all layers"
    if network.pos_embed is not None and network.pos_embed.ndim != 3:
        return f"pos_embed has {network.pos_embed.ndim} dimensions, not 3"
    heads = {getattr(block.attn, "num_kv_heads", block.attn.num_heads) for block in network.blocks}
    if heads != {network.blocks[0].attn.num_heads}:
        return "blocks have fewer heads of keys and values than of queries (grouped-query attention)"
    return ""


def _mlp_ratios(model: Any) -> list[float]:
    """Possible values of ``mlp_ratio``: some MLPs count the gate's neurons, others do not."""
    mlp = model.blocks[0].mlp
    first = next((getattr(mlp, name) for name in ("fc1", "fc1_g") if hasattr(mlp, name)), None)
    if not isinstance(first, nn.Linear):
        return []
    hidden = first.out_features
    return [_short_ratio(size, model.embed_dim) for size in ((hidden,) if type(mlp) is Mlp else (hidden, hidden // 2))]


def _short_ratio(hidden: int, width: int) -> float:
    """A short ratio for which ``int(width * ratio)`` is ``hidden``."""
    ratio = hidden / width
    candidates = [float(f"{ratio:.{digits}g}") for digits in range(1, 18)]
    return next(candidate for candidate in (*candidates, ratio * (1 + 1e-15)) if int(width * candidate) == hidden)


def _describe_with_form(model: ViTNetwork, form: str, mlp_ratio: float) -> Description:
    """Describe a model by its sizes and a form."""
    try:
        candidate = _candidate(model, form, mlp_ratio)
        reason = difference(candidate.build("meta"), model)
    except UserError as error:  # sizes that no architecture has, or a model that differs from its name
        return Description(None, str(error).removeprefix("architecture: "))
    except AttributeError as error:
        return Description(None, shortened(str(error)))
    return Description(candidate if reason is None else None, reason or "")


def _candidate(model: Any, form: str, mlp_ratio: float) -> ViTArchitecture:
    patches = model.patch_embed
    return ViTArchitecture(
        depth=len(model.blocks),
        embed_dim=model.embed_dim,
        num_heads=model.blocks[0].attn.num_heads,
        mlp_ratio=mlp_ratio,
        patch_size=patches.patch_size[0],
        img_size=image_size(*patches.img_size),
        num_classes=model.num_classes,
        in_chans=patches.proj.in_channels,
        kind="segmentation" if model.global_pool == "" else "classification",
        form=form,
    )
