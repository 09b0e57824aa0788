"""GPT-2 classifiers: names, specifications, sets, and the model itself."""

import json

import pytest
import torch

from lgx.architectures import (
    GPT2_NAMES,
    GPT2Architecture,
    ViTArchitecture,
    architecture_from_dict,
    architecture_set,
    name_of,
    parse_any_architecture,
    parse_architecture,
    parse_like,
    read_architectures,
    sample_architectures,
)
from lgx.errors import UserError
from tests.support.command_line import python
from tests.support.gpt2 import GPT2, texts, transformers


def test_gpt2_small_has_its_published_size_and_macs_count_every_product_once():
    # 124,439,808 without a head (Radford et al.'s smallest), and 2 x 768 for the head.
    assert parse_any_architecture("12-GPT2").count_parameters() == 124_439_808 + 2 * 768
    n, d = GPT2.max_len, GPT2.embed_dim
    per_layer = n * 12 * d * d + 2 * n * n * d
    assert GPT2.count_macs() == 2 * per_layer + n * 3 * d


@pytest.mark.parametrize("architecture", [GPT2, GPT2_NAMES["3-GPT2"], GPT2Architecture(3, 192, 3, max_len=128)])
def test_names_specs_and_dictionaries_round_trip(architecture):
    plain = architecture.replace(num_classes=2)
    assert parse_any_architecture(name_of(architecture)) == parse_any_architecture(architecture.spec()) == plain
    assert architecture_from_dict(json.loads(json.dumps(architecture.to_dict()))) == architecture


def test_a_family_of_another_package_may_limit_its_vocabulary():
    limited = type("Limited", (GPT2Architecture,), {"limits": {**GPT2Architecture.limits, "vocab_size": 9}})
    with pytest.raises(UserError, match="vocab_size is 10, expected a whole number, 1 to 9"):
        limited(1, 8, 2, vocab_size=10)


def test_sets_keep_the_base_and_refuse_another_family(tmp_path):
    assert {a.max_len for a in architecture_set("GPTs-1K", 5, GPT2.replace(max_len=64))} == {64}
    with pytest.raises(UserError, match=r"GPTs-1K holds GPT-2s, but 12-Tiny is a ViT; use ViTs-1K or ViTs.-1K"):
        architecture_set("GPTs-1K", 5, ViTArchitecture())
    with pytest.raises(UserError, match=r"ViTs-1K holds ViTs, but gpt2:.* is a GPT-2; use GPTs-1K"):
        architecture_set("ViTs-1K", 5, GPT2)
    file = tmp_path / "set.jsonl"
    drawn = list(sample_architectures("GPTs-1K", 4, base=GPT2))
    file.write_text("".join(json.dumps({"name": name_of(a), **a.to_dict()}) + "\n" for a in drawn))
    assert read_architectures(str(file)) == [a.replace(num_classes=2) for a in drawn]
    assert architecture_set(str(file), 3, GPT2) == drawn[:3]
    with pytest.raises(UserError, match="line 1: max_len is 12, but the data's is 13"):
        read_architectures(str(file), GPT2.replace(max_len=13))
    with pytest.raises(UserError, match="line 1: family is 'gpt2', but the data's is vit"):
        read_architectures(str(file), ViTArchitecture())


def test_a_built_model_computes_the_logits_of_transformers():
    torch.manual_seed(0)
    model = GPT2.build().eval()
    plain = transformers.GPT2ForSequenceClassification(model.config).eval()
    plain.load_state_dict(model.state_dict())
    ids = texts(5, 9, 1)
    torch.testing.assert_close(model(ids), plain(input_ids=ids, attention_mask=(ids != 100).long()).logits)
    torch.testing.assert_close(model(ids)[:1], model(ids[:1, :5]))  # padding changes nothing
    noisy = GPT2.build(drop_rate=0.5)
    assert not torch.equal(noisy(ids), noisy(ids))
    trained = GPT2.build()
    assert torch.equal(trained(ids), trained(ids))
    with pytest.raises(UserError, match="13 tokens, but the architecture reads at most 12"):
        model(texts(13))


@pytest.mark.slow
def test_describing_text_models_imports_no_transformers():
    code = (
        "import sys; from lgx.architectures import parse_any_architecture, sample_architectures;"
        "from lgx.hypernet.graph import computational_graph;"
        "computational_graph(parse_any_architecture('3-GPT2')); list(sample_architectures('GPTs-1K', 3));"
        "assert 'transformers.models.gpt2.modeling_gpt2' not in sys.modules"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


def test_parse_like_takes_the_inputs_of_its_base():
    base = GPT2Architecture(2, 24, 3, max_len=12, vocab_size=101, num_classes=3)
    assert parse_like("3-GPT2", base) == GPT2Architecture(3, max_len=12, vocab_size=101, num_classes=3)
    assert parse_like("3-GPT2,max_len=9", base).max_len == 9
    with pytest.raises(UserError, match="reads text, but the task has images"):
        parse_like("3-GPT2", ViTArchitecture())
    with pytest.raises(UserError, match="reads text"):
        parse_architecture("3-GPT2")
    with pytest.raises(UserError, match="family 'bert'"):
        architecture_from_dict({"family": "bert"})
