"""A tiny GPT-2 and Llama, texts, and hypernetworks that predict them; importing this module needs transformers."""

import torch

from lgx.architectures import HFArchitecture
from lgx.hypernet import Hypernet, HypernetConfig
from tests.support.extras import import_transformers
from tests.support.hypernet import TINY

transformers = import_transformers()

GPT2 = HFArchitecture(2, 24, 3, max_len=12, vocab_size=101, num_classes=3)
LLAMA = HFArchitecture(
    2, 32, 4, heads_per_group=2, mlp_ratio=2.5, max_len=12, vocab_size=101, num_classes=3,
    config='{"model_type":"llama"}',
)  # fmt: skip


def texts(*lengths: int, vocab_size: int = 101) -> torch.Tensor:
    """Random texts of these lengths, padded on the right: token ids, attention mask and token types, (B, 3, N)."""
    ids = torch.full((len(lengths), max(lengths)), vocab_size - 1)
    for i, length in enumerate(lengths):
        ids[i, :length] = torch.randint(0, vocab_size - 1, (length,))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return torch.stack([ids, mask.long(), torch.zeros_like(ids)], dim=1)


def hypernet(**options: object) -> Hypernet:
    """A tiny hypernetwork for 3 classes, always with the same weights."""
    torch.manual_seed(0)
    return Hypernet(HypernetConfig(**{**TINY, "num_classes": 3, **options}))
