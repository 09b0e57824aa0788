"""Read networks of transformers: networks of texts, and weights of vision models (ViT, DeiT, DINOv2).

The names of vision models become those that timm reads.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lgx.architectures import HFArchitecture
from lgx.architectures.hf import describe_config
from lgx.artifacts.safety import AGAIN, check_weights
from lgx.errors import UserError
from lgx.host.extras import extra
from lgx.host.failures import foreign_errors

_LAYER = re.compile(r"(?:encoder\.)?layers?\.(\d+)\.")
_PREFIX = re.compile(
    r"^(?:vit|deit|dinov2|dinov2_with_registers|model)\.(?=embeddings\.|encoder\.|layers?\.|layernorm\.)"
)
_RULES = (
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
_PART = re.compile(r"(.*\.attn\.)([qkv])(\.weight|\.bias)")


def is_text_network(about: Mapping[str, Any]) -> bool:
    """Whether a configuration is that of a language model or of a classifier of texts of transformers."""
    if not isinstance(about.get("model_type"), str) or "architecture" in about:  # timm's folders name the latter
        return False
    with extra("nlp", "config.json"):
        from lgx.architectures.hf_config import text_model_types
    return about["model_type"] in text_model_types()


def read_text_network(
    about: Mapping[str, Any], config: Path
) -> tuple[dict[str, Tensor], HFArchitecture, tuple[str, ...], tuple[str, ...]]:
    """Read a network of texts, as transformers reads it; code in the folder is never executed.

    Args:
        about: What ``config.json`` holds.
        config: The file.

    Returns:
        Parameters under transformers' names; the architecture, without classes if the source has no head; names of the
        parameters that the source lacks, which are random: of the head, or of a pooler before it; names of the classes
        in index order, () if unknown.
    """
    with extra("nlp", str(config)):
        from lgx.architectures.hf_config import network_class
    architecture = describe_config(about, str(config))
    folder = config.parent
    kind = network_class(architecture.configuration(), architecture.kind)
    with foreign_errors(str(folder), "transformers cannot load it", "copy it again"), torch.random.fork_rng(devices=[]):
        options = {"config": architecture.configuration(), "dtype": "auto", "local_files_only": True}
        network, loading = kind.from_pretrained(
            folder, output_loading_info=True, ignore_mismatched_sizes=True, **options
        )
    for name, stored, described in sorted(loading["mismatched_keys"]):
        raise UserError(
            f"{config}: {name} has shape {tuple(stored)}, but the configuration gives {tuple(described)}; {AGAIN}"
        )
    lacking, unknown = sorted(loading["missing_keys"]), sorted(loading["unexpected_keys"])
    lost = [name for name in lacking if name not in architecture.structure.after_tokens]
    if lost:
        raise UserError(f"{config}: the weights beside it lack {lost[0]}; copy them again")
    more = [name for name in unknown if name.startswith((architecture.layers, _without_base(architecture)))]
    if more:
        raise UserError(
            f"{config}: describes {architecture.depth} layers, but the weights also hold {more[0]}; {AGAIN}"
        )
    tensors = dict(network.named_parameters())
    if any(name in tensors for name in architecture.tied_names()):  # the file has a head of its own
        architecture = describe_config({**about, "tie_word_embeddings": False}, str(config))
    if architecture.kind != "language" and any(name.startswith(architecture.head_prefixes) for name in lacking):
        architecture = architecture.replace(num_classes=0)
    shapes = {name: p.shape for name, p in architecture.build("meta").named_parameters()}
    check_weights(tensors, str(config))
    weights = {name: tensors[name].detach()[: shape[0]] for name, shape in shapes.items()}
    names = _names(about.get("id2label") or {}) if architecture.num_classes and architecture.kind != "language" else ()
    return weights, architecture, tuple(name for name in lacking if name in shapes), names


def _without_base(architecture: HFArchitecture) -> str:
    """Prefix of the names of layers in files of networks without a head."""
    return architecture.layers.partition(".")[2]


def _names(labels: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the classes in index order; () for transformers' placeholders."""
    made_up = tuple(f"LABEL_{index}" for index in range(len(labels)))
    names = tuple(str(labels.get(str(index), name)) for index, name in enumerate(made_up))
    return () if names == made_up else names


def has_transformers_names(tensors: Mapping[str, Tensor]) -> bool:
    """Whether weights have the names of transformers' ViT, DeiT or DINOv2."""
    return any(_PREFIX.sub("", name) == "embeddings.patch_embeddings.projection.weight" for name in tensors)


def timm_names(tensors: Mapping[str, Tensor], place: str) -> dict[str, Tensor]:
    """Rename weights, and join queries, keys and values as timm stores them.

    DINOv2's names become those of its authors, which timm converts further.

    Returns:
        The weights under names that timm reads; parameters that transformers adds to ViT are unchanged.
    """
    renamed: dict[str, Tensor] = {}
    parts: dict[tuple[str, str], dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        new = _LAYER.sub(r"blocks.\1.", _PREFIX.sub("", name), count=1)
        for pattern, replacement in _RULES:
            new = re.sub(pattern, replacement, new)
        match = _PART.fullmatch(new)
        if match:
            parts.setdefault((match[1], match[3]), {})[match[2]] = tensor
        else:
            renamed[new] = tensor
    for (attention, suffix), pieces in parts.items():
        if pieces.keys() != {*"qkv"}:
            raise UserError(f"{place}: {attention}{{q,k,v}}{suffix} has only {', '.join(pieces)}; give the whole file")
        renamed[f"{attention}qkv{suffix}"] = torch.cat([pieces[part] for part in "qkv"])
    if "register_tokens" in renamed:  # timm recognizes DINOv2 by its mask token
        renamed.setdefault("mask_token", torch.zeros(0))
    return renamed
