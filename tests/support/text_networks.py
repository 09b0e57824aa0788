"""Tiny networks of transformers that read texts; modules that import this one need transformers."""

from typing import Any

import torch
from torch import nn

from tests.support.extras import import_transformers

transformers: Any = import_transformers()

_WIDTH = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6}
_SIZES = {**_WIDTH, "vocab_size": 64, "max_position_embeddings": 32, "pad_token_id": 1, "bos_token_id": 2}
_SIZES |= {"eos_token_id": 3}
_TOKENS = ("vocab_size", "pad_token_id", "bos_token_id", "eos_token_id")
_GROUPS = {**_SIZES, "num_key_value_heads": 3}
_CLASSES = {"num_labels": 3}
_NETWORKS = {
    "llama": ("LlamaForCausalLM", _GROUPS),
    "tied": ("LlamaForCausalLM", {**_GROUPS, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3ForCausalLM", {**_GROUPS, "head_dim": 16, "tie_word_embeddings": True}),
    "phi3": ("Phi3ForCausalLM", _GROUPS),
    "gpt_neox": ("GPTNeoXForCausalLM", _SIZES),
    "gpt2": (
        "GPT2LMHeadModel",
        {**{k: _SIZES[k] for k in _TOKENS}, "n_embd": 48, "n_inner": 96, "n_layer": 3, "n_head": 6, "n_positions": 32},
    ),
    "bert": ("BertForSequenceClassification", {**_SIZES, **_CLASSES}),
    "roberta": ("RobertaForSequenceClassification", {**_SIZES, **_CLASSES, "max_position_embeddings": 34}),
    "modernbert": (
        "ModernBertForSequenceClassification",
        {**_SIZES, **_CLASSES, "cls_token_id": 2, "sep_token_id": 3, "local_attention": 8},
    ),
}  # fmt: skip
EACH_TEXT = list(_NETWORKS)


def plain_network(form: str, **changes: int) -> Any:
    """A network of transformers, in which every parameter matters."""
    name, values = _NETWORKS[form]
    kind = getattr(transformers, name)
    torch.manual_seed(0)
    network = kind(kind.config_class(**{**values, **changes})).eval()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.2)
    return network


def padded_ids() -> torch.Tensor:
    """Token ids, attention mask and token types of two texts, the second one padded on the right, (2, 3, N)."""
    ids = torch.randint(4, 60, (2, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    ids[1, 6:], mask[1, 6:] = 1, 0
    return torch.stack([ids, mask, torch.zeros_like(ids)], dim=1)
