"""Optimizer groups."""

from lgx.architectures import GPT2Architecture
from lgx.components.optim import parameter_groups


def test_embeddings_have_no_weight_decay():
    decayed, kept = parameter_groups(GPT2Architecture(1, 8, 2, max_len=5, vocab_size=7).build("meta"))
    if "weight_decay" in decayed:
        decayed, kept = kept, decayed
    shapes = {tuple(p.shape) for p in kept["params"]}
    assert {(7, 8), (5, 8)} <= shapes
    assert not {(7, 8), (5, 8)} & {tuple(p.shape) for p in decayed["params"]}
