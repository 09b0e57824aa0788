"""Names of transformers' vision models (ViT, DeiT, DINOv2) turned into those that timm reads."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from lgx.errors import UserError

_LAYER = re.compile(r"(?:encoder\.)?layers?\.(\d+)\.")
_PREFIX = re.compile(
    r"^(?:vit|deit|dinov2|dinov2_with_registers|model)\.(?=embeddings\.|encoder\.|layers?\.|layernorm\.)"
)
_RULES = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (r"^embeddings\.cls_token$", "cls_token"),
        (r"^embeddings\.distillation_token$", "dist_token"),
        (r"^embeddings\.mask_token$", "mask_token"),
        (r"^embeddings\.register_tokens$", "register_tokens"),
        (r"^embeddings\.position_embeddings$", "pos_embed"),
        (r"^embeddings\.patch_embeddings\.projection\.", "patch_embed.proj."),
        (r"^layernorm\.", "norm."),
        (r"^(?:cls_)?classifier\.", "head."),
        (r"^distillation_classifier\.", "head_dist."),
        (r"\.attention\.(?:attention\.)?(?:query|q_proj)\.", ".attn.q."),
        (r"\.attention\.(?:attention\.)?(?:key|k_proj)\.", ".attn.k."),
        (r"\.attention\.(?:attention\.)?(?:value|v_proj)\.", ".attn.v."),
        (r"\.attention\.(?:output\.dense|o_proj)\.", ".attn.proj."),
        (r"\.intermediate\.dense\.", ".mlp.fc1."),
        (r"\.output\.dense\.", ".mlp.fc2."),
        (r"\.layernorm_before\.", ".norm1."),
        (r"\.layernorm_after\.", ".norm2."),
        (r"\.layer_scale([12])\.lambda1$", r".ls\1.gamma"),
        (r"\.mlp\.weights_in\.", ".mlp.w12."),
        (r"\.mlp\.weights_out\.", ".mlp.w3."),
    )
)
_PART = re.compile(r"(.*\.attn\.)([qkv])(\.weight|\.bias)")


def has_transformers_names(tensors: Mapping[str, Tensor]) -> bool:
    """Whether weights have the names of transformers' ViT, DeiT or DINOv2."""
    return any(_PREFIX.sub("", name) == "embeddings.patch_embeddings.projection.weight" for name in tensors)


def timm_names(tensors: Mapping[str, Tensor], place: str) -> dict[str, Tensor]:
    """Rename weights, and join queries, keys and values as timm stores them.

    DINOv2's names become those of its authors, which timm converts further.

    Returns:
        The weights under names that timm reads; those that transformers adds to ViT's stay as they are.
    """
    renamed: dict[str, Tensor] = {}
    parts: dict[tuple[str, str], dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        new = _LAYER.sub(r"blocks.\1.", _PREFIX.sub("", name), count=1)
        for pattern, replacement in _RULES:
            new = pattern.sub(replacement, new)
        if found := _PART.fullmatch(new):
            parts.setdefault((found[1], found[3]), {})[found[2]] = tensor
        else:
            renamed[new] = tensor
    for (attention, suffix), pieces in parts.items():
        if pieces.keys() != {*"qkv"}:
            raise UserError(f"{place}: {attention}{{q,k,v}}{suffix} has only {', '.join(pieces)}; give the whole file")
        renamed[f"{attention}qkv{suffix}"] = torch.cat([pieces[part] for part in "qkv"])
    if "register_tokens" in renamed:  # by its mask token timm knows DINOv2
        renamed.setdefault("mask_token", torch.zeros(0))
    return renamed
