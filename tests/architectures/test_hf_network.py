"""What a network of transformers adds for training: groups of layers for layer decay, dropout, and refused texts."""

import pytest
import torch

from lgx.architectures import GPT2Architecture, HFArchitecture
from lgx.components.optim import parameter_groups
from lgx.errors import UserError
from tests.support.command_line import lgx
from tests.support.extras import import_transformers

import_transformers()
SIZES = {"depth": 3, "embed_dim": 32, "num_heads": 4, "max_len": 16, "vocab_size": 50}


@pytest.mark.parametrize(
    "architecture",
    [HFArchitecture(**SIZES), HFArchitecture(**SIZES, form="bert"), GPT2Architecture(**SIZES)],
    ids=["llama", "bert", "gpt2"],
)
def test_rates_fall_from_the_head_to_the_embeddings(architecture):
    network = architecture.build()
    rate = {id(p): g["lr_scale"] for g in parameter_groups(network, 0.5) for p in g["params"]}
    layers = [{rate[id(p)] for p in layer.parameters()} for layer in architecture.blocks(network)]
    assert layers == [{0.125}, {0.25}, {0.5}]
    embeddings = {rate[id(m.weight)] for m in network.modules() if isinstance(m, torch.nn.Embedding)}
    assert embeddings == {0.0625}
    head = network.get_submodule(architecture.head.rstrip("."))
    assert {rate[id(p)] for p in head.parameters()} == {1.0}


def test_texts_that_are_too_long_are_refused_also_where_positions_are_reserved():
    roberta = HFArchitecture(**SIZES, pad_id=1, form="roberta")
    assert roberta.most_tokens == 14
    network = roberta.build().eval()
    assert network(torch.full((1, 14), 3)).shape == (1, 2)
    with pytest.raises(UserError, match="has 15 tokens, but the architecture reads at most 14"):
        network(torch.full((1, 15), 3))


def test_backbones_lists_types_with_what_they_are_read_as():
    done = lgx("backbones", "hf:llam*")
    assert "llama        text, language" in done.out
    assert "llama4       not read" in done.out
    assert "encoder-decoder" in lgx("backbones", "hf:t5").out
    assert "transformers has no type of that name" in lgx("backbones", "hf:nothing").sentence
