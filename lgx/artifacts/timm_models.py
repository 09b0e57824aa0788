"""Load timm's models, and describe those that are plain ViTs."""

from typing import Any

import timm
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from lgx.architectures import ViTArchitecture
from lgx.core.foreign import timm_errors
from lgx.errors import UserError

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def check_known(name: str) -> None:
    """Refuse a name that timm does not know.

    Raises:
        UserError: If there is no such model.
    """
    if not timm.is_model(name.split(".")[0]):
        raise UserError(f"{name}: is no file, no folder, and no model that timm knows (see timm.list_models())")


def load_timm(name: str) -> tuple[nn.Module, ViTArchitecture | None, tuple[float, ...], tuple[float, ...]]:
    """Load a pretrained model with timm.

    Args:
        name: A timm model name, or ``hf-hub:…`` or ``local-dir:…``.

    Returns:
        The model in eval mode; its architecture, see :func:`describe_vit`; the per-channel mean and standard deviation
        of its inputs.

    Raises:
        UserError: If timm cannot load it.
    """
    with timm_errors(name):
        model: Any = timm.create_model(name, pretrained=True).eval()
        config = model.pretrained_cfg or {}
        mean, std = tuple(config.get("mean") or IMAGENET_MEAN), tuple(config.get("std") or IMAGENET_STD)
        return model, describe_vit(model), mean, std


def describe_vit(model: nn.Module) -> ViTArchitecture | None:
    """Describe a timm model if it is a plain ViT: with a class token, without a distillation token.

    Args:
        model: Any model of timm.

    Returns:
        The architecture, which is for segmentation if the head reads every token; None for other models.
    """
    if type(model) is not VisionTransformer or model.num_prefix_tokens != 1 or model.cls_token is None:
        return None
    block: Any = model.blocks[0]
    patches = model.patch_embed
    try:
        candidate = ViTArchitecture(
            depth=len(model.blocks),
            embed_dim=model.embed_dim,
            num_heads=block.attn.num_heads,
            mlp_ratio=block.mlp.fc1.out_features / model.embed_dim,
            patch_size=patches.patch_size[0],
            img_size=patches.img_size[0],
            num_classes=model.num_classes,
            in_chans=patches.proj.in_channels,
            kind="segmentation" if model.global_pool == "" else "classification",
        )
    except UserError:  # sizes beyond those of an architecture
        return None
    same = {k: v.shape for k, v in candidate.build("meta").state_dict().items()} == {
        k: v.shape for k, v in model.state_dict().items()
    }
    return candidate if same else None
