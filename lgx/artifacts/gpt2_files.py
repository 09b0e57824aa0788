"""Read GPT-2s as transformers stores them: ``config.json`` and weights. No code of transformers reads the files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lgx.architectures import GPT2Architecture
from lgx.artifacts.safety import AGAIN, check_shapes, described_architecture, is_weight
from lgx.core.schema import CLASSES, MAPPING, check_fields
from lgx.errors import UserError

_SIZES = {
    "depth": "n_layer", "embed_dim": "n_embd", "num_heads": "n_head", "max_len": "n_positions",
    "vocab_size": "vocab_size",
}  # fmt: skip
"""Field of the architecture -> key of the configuration."""
_OWN = {
    "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False, "quantization_config": None,
}  # fmt: skip
"""What GPT-2 has as published, by key of the configuration."""
_PARTS = ("transformer.", "score.", "lm_head.")
_SCORE = "score.weight"


def read_gpt2(
    about: Mapping[str, Any], tensors: Mapping[str, Tensor], config: Path
) -> tuple[dict[str, Tensor], GPT2Architecture, bool, tuple[str, ...]]:
    """Read a GPT-2 of transformers, a language model or a classifier.

    Returns:
        Parameters under the names of :class:`GPT2Classifier`; the architecture; whether the head is the source's own;
        names of the classes in index order, () if unknown. A language model has no head for classes and gets a random
        one.
    """
    about = check_fields(about, {"num_labels": CLASSES, "id2label": MAPPING}, str(config))
    for key, key_of_lgx in _OWN.items():
        if (have := about.get(key, key_of_lgx)) != key_of_lgx:
            raise UserError(f"{config}: its {key} is {str(have)[:100]}, expected GPT-2's own {key_of_lgx}")
    labels = about.get("id2label") or {}
    sizes = {field: about.get(key, getattr(GPT2Architecture(), field)) for field, key in _SIZES.items()}
    described = {"family": GPT2Architecture.family, **sizes, "num_classes": len(labels) or about.get("num_labels", 2)}
    architecture = described_architecture(described, str(config))
    assert isinstance(architecture, GPT2Architecture)
    if about.get("n_inner") not in (None, 4 * architecture.embed_dim):
        raise UserError(
            f"{config}: its n_inner is {str(about['n_inner'])[:100]}, expected {4 * architecture.embed_dim}"
        )
    named = {name if name.startswith(_PARTS) else f"transformer.{name}": tensor for name, tensor in tensors.items()}
    if (layers := check_shapes(named, architecture, str(config))) != architecture.depth:
        raise UserError(f"{config}: n_layer is {architecture.depth}, but the weights hold {layers} layers; {AGAIN}")
    expected = architecture.build("meta").state_dict()
    has_head = _SCORE in named
    if not has_head:
        named[_SCORE] = torch.empty_like(expected[_SCORE], device="cpu").normal_(std=0.02)
    for name in expected:
        if name not in named or not is_weight(named[name]):
            raise UserError(
                f"{config}: the weights beside it lack {name}, or hold no ordinary numbers; copy them again"
            )
    return {name: named[name] for name in expected}, architecture, has_head, _names(labels) if has_head else ()


def _names(labels: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the classes in index order; () where they are those that transformers makes up."""
    made_up = tuple(f"LABEL_{index}" for index in range(len(labels)))
    names = tuple(str(labels.get(str(index), name)) for index, name in enumerate(made_up))
    return () if names == made_up else names
