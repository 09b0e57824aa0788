"""Networks of transformers that read texts: names, specifications, sets, counts, logits, and parts in groups."""

import json

import pytest
import torch

from lgx.architectures import (
    HFArchitecture,
    ViTArchitecture,
    architecture_from_dict,
    architecture_set,
    full_name,
    name_of,
    parse_any_architecture,
    parse_architecture,
    parse_for,
    parse_like,
)
from lgx.components.optim import parameter_groups
from lgx.errors import UserError
from tests.support.command_line import python
from tests.support.gpt2 import GPT2, texts

SIZES = {"depth": 3, "embed_dim": 32, "num_heads": 4, "max_len": 16, "vocab_size": 50}
LLAMA, BERT = (HFArchitecture(**SIZES, config=f'{{"model_type":"{name}"}}') for name in ("llama", "bert"))
KINDS = ["full_attention", "sliding_attention", "full_attention"]
WINDOWS = {"model_type": "qwen3", "layer_types": KINDS, "sliding_window": 4, "use_sliding_window": True}
QWEN = HFArchitecture(**SIZES, heads_per_group=2, config=json.dumps(WINDOWS))


@pytest.mark.parametrize(
    "architecture", [GPT2, HFArchitecture(3), HFArchitecture(3, 192, 3, mlp_ratio=2.5), BERT, QWEN]
)
def test_names_specs_and_dictionaries_round_trip(architecture):
    plain = architecture.replace(num_classes=2)
    assert parse_any_architecture(full_name(architecture)) == parse_any_architecture(architecture.spec()) == plain
    assert architecture_from_dict(json.loads(json.dumps(architecture.to_dict()))) == architecture
    assert name_of(architecture).endswith({BERT: ",type=bert", QWEN: ",type=qwen3"}.get(architecture, ""))


def test_the_smallest_gpt2_has_its_published_size_and_macs_count_every_product_once():
    # 124,439,808 without a head (Radford et al.'s smallest), and 2 x 768 for the head.
    assert parse_any_architecture("12-GPT2").count_parameters() == 124_439_808 + 2 * 768
    n, d = GPT2.max_len, GPT2.embed_dim
    per_layer = n * 12 * d * d + 2 * n * n * d
    assert GPT2.count_macs() == 2 * per_layer + 3 * d


def test_sets_keep_the_base_and_refuse_other_networks(tmp_path):
    assert {a.max_len for a in architecture_set("GPTs-1K", 5, GPT2.replace(max_len=64))} == {64}
    with pytest.raises(UserError, match=r"GPTs-1K holds GPT-2s, but 12-Tiny is a ViT; use ViTs-1K or ViTs.-1K"):
        architecture_set("GPTs-1K", 5, ViTArchitecture())
    with pytest.raises(UserError, match=r"GPTs-1K holds GPT-2s, but hf:.*type=llama is a .*; use LLAMAs-1K"):
        architecture_set("GPTs-1K", 5, LLAMA)
    grouped = LLAMA.replace(heads_per_group=2)
    assert {(a.max_len, a.heads_per_group, a.config) for a in architecture_set("LLAMAs-1K", 5, grouped)} == {
        (16, 2, LLAMA.config)
    }
    file = tmp_path / "set.jsonl"
    drawn = architecture_set("GPTs-1K", 4, GPT2)
    file.write_text("".join(json.dumps({"name": name_of(a), **a.to_dict()}) + "\n" for a in drawn))
    assert architecture_set(str(file), None, GPT2) == drawn
    assert architecture_set(str(file), 3, GPT2.replace(num_classes=2)) == [a.replace(num_classes=2) for a in drawn[:3]]
    with pytest.raises(UserError, match="line 1: max_len is 12, but the data's is 13"):
        architecture_set(str(file), None, GPT2.replace(max_len=13))
    with pytest.raises(UserError, match="line 1: family is 'hf', but the data's is vit"):
        architecture_set(str(file), None, ViTArchitecture())


def test_parse_like_takes_the_inputs_of_its_base():
    assert parse_like("3-GPT2", GPT2) == HFArchitecture(3, max_len=12, vocab_size=101, num_classes=3)
    assert parse_like("3-GPT2,max_len=9", GPT2).max_len == 9
    with pytest.raises(UserError, match="reads text, but the task has images"):
        parse_like("3-GPT2", ViTArchitecture())
    with pytest.raises(UserError, match="reads images, but the task has text"):
        parse_for("depth=3", "language")
    with pytest.raises(UserError, match="reads text"):
        parse_architecture("3-GPT2")
    with pytest.raises(UserError, match="family 'bert'"):
        architecture_from_dict({"family": "bert"})


@pytest.mark.parametrize(("name", "most"), [("gpt2", 16), ("roberta", 14)])
def test_texts_that_are_too_long_are_refused_also_where_positions_are_reserved(name, most):
    architecture = HFArchitecture(**SIZES, config=f'{{"model_type":"{name}","pad_token_id":1}}')
    assert architecture.most_tokens == most
    network = architecture.build().eval()
    assert network(texts(most, vocab_size=50)).shape == (1, 2)
    with pytest.raises(UserError, match=f"has {most + 1} tokens, but the architecture reads at most {most}"):
        network(texts(most + 1, vocab_size=50))


def test_text_networks_have_the_dropout_of_a_run_in_training_alone():
    noisy, plain, inputs = GPT2.build(drop_rate=0.5), GPT2.build(), texts(5, 9)
    assert torch.equal(plain(inputs), plain(inputs))
    assert not torch.equal(noisy(inputs), noisy(inputs))
    assert torch.equal(noisy.eval()(inputs), noisy(inputs))


@pytest.mark.parametrize("architecture", [LLAMA, BERT, HFArchitecture(**SIZES)], ids=["llama", "bert", "gpt2"])
def test_rates_fall_from_the_head_to_the_embeddings(architecture):
    network = architecture.build()
    rate = {id(p): g["lr_scale"] for g in parameter_groups(network, 0.5) for p in g["params"]}
    layers = [{rate[id(p)] for p in layer.parameters()} for layer in architecture.blocks(network)]
    assert layers == [{0.125}, {0.25}, {0.5}]
    embeddings = {rate[id(m.weight)] for m in network.modules() if isinstance(m, torch.nn.Embedding)}
    assert embeddings == {0.0625}
    head = network.get_submodule(architecture.head.rstrip("."))
    assert {rate[id(p)] for p in head.parameters()} == {1.0}


@pytest.mark.slow
def test_describing_gpt2s_imports_no_transformers():
    code = (
        "import sys; from lgx.architectures import architecture_set, parse_any_architecture;"
        "from lgx.hypernet.graph import computational_graph; gpt2 = parse_any_architecture('3-GPT2');"
        "computational_graph(gpt2); architecture_set('GPTs-1K', 3, gpt2);"
        "assert 'transformers.models.gpt2.modeling_gpt2' not in sys.modules"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
