"""Networks of transformers are read with all of their configuration: heads, tokens, kinds of layers, ties."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from lgx.architectures import HFArchitecture, parse_for
from lgx.artifacts.pretrained import load_pretrained
from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.methods import LayerChoice, WeightSubcloning
from tests.support.command_line import lgx, ok, refusal
from tests.support.text_networks import padded_ids, transformers

SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 60}


def saved(folder: Path, name: str, **values: Any) -> Any:
    """A random network of a class of transformers, written into a folder."""
    kind = getattr(transformers, name)
    torch.manual_seed(0)
    network = kind(kind.config_class(**{**SIZES, **values})).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    network.save_pretrained(folder)
    return network


def test_a_source_without_a_padding_token_stays_without_and_all_its_embeddings_train(tmp_path):
    saved(tmp_path / "source", "LlamaForCausalLM", eos_token_id=[0, 1], pad_token_id=None)
    ok(lgx("init", "--source", tmp_path / "source", "--arch", "depth=2", "--head", 3, "--out", tmp_path / "out",
           "--method", "layer_choice"))  # fmt: skip
    for place in ("source", "out"):
        about = json.loads((tmp_path / place / "config.json").read_text())
        assert (about["eos_token_id"], about["pad_token_id"]) == ([0, 1], None)
    network = load_pretrained(str(tmp_path / "out")).model
    ids = torch.stack([torch.tensor([[0, 1, 2, 0]]), torch.ones(1, 4).long(), torch.zeros(1, 4).long()], dim=1)
    network(ids).square().sum().backward()
    gradients = network.get_input_embeddings().weight.grad[:3]
    assert (gradients.abs().sum(dim=1) > 0).all()


def test_the_head_of_a_classifier_reads_the_last_token_by_the_mask_not_by_a_token(tmp_path):
    plain = saved(tmp_path, "LlamaForSequenceClassification", pad_token_id=None, num_labels=3)
    inputs = padded_ids()
    inputs[1, 0, 5] = 1  # a real token that padding has, too
    with torch.no_grad():
        ours = load_pretrained(str(tmp_path)).model(inputs)
        alone = [plain(row[None, 0, : int(row[1].sum())]).logits[0] for row in inputs]
    assert_close(ours, torch.stack(alone), atol=1e-5, rtol=1e-4)


def test_tokens_outside_of_a_small_vocabulary_are_read_as_transformers_reads_them(tmp_path):
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=50, n_positions=16)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    network = load_pretrained(str(tmp_path))
    assert network.architecture.configuration().eos_token_id == 50256


def test_a_tied_network_whose_file_has_a_head_of_its_own_keeps_it(tmp_path):
    plain = saved(tmp_path, "LlamaForCausalLM", tie_word_embeddings=False)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "tie_word_embeddings": True}))
    opened = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    network = load_pretrained(str(tmp_path))
    inputs = padded_ids()[:1]
    with torch.no_grad():
        assert_close(network.model(inputs), opened(inputs[:, 0]).logits, atol=1e-5, rtol=1e-4)
        assert_close(network.model(inputs), plain(inputs[:, 0]).logits, atol=1e-5, rtol=1e-4)


def test_heads_keep_what_they_predict_and_a_regression_is_refused(tmp_path):
    saved(
        tmp_path / "several", "BertForSequenceClassification", num_labels=4, problem_type="multi_label_classification"
    )
    assert load_pretrained(str(tmp_path / "several")).architecture.kind == "multilabel"
    ok(lgx("init", "--source", tmp_path / "several", "--arch", "depth=2", "--method", "layer_choice", "--out",
           tmp_path / "out"))  # fmt: skip
    about = json.loads((tmp_path / "out/config.json").read_text())
    assert (about["problem_type"], len(about["id2label"])) == ("multi_label_classification", 4)
    saved(tmp_path / "number", "BertForSequenceClassification", num_labels=1)
    with pytest.raises(UserError, match="its head is a regression"):
        load_pretrained(str(tmp_path / "number"))


@pytest.mark.parametrize("name", ["BertModel", "BertForMaskedLM", "ElectraModel", "DistilBertModel"])
def test_an_encoder_without_a_head_stays_one(name, tmp_path):
    sizes = {"dim": 32, "hidden_dim": 64, "n_layers": 3, "n_heads": 4} if name == "DistilBertModel" else {}
    plain = saved(tmp_path / "source", name, **sizes, **({"embedding_size": 32} if "Electra" in name else {}))
    network = load_pretrained(str(tmp_path / "source"))
    assert (network.architecture.num_classes, network.has_head) == (0, False)
    base = getattr(plain, plain.base_model_prefix, plain)
    inputs = padded_ids()
    mask = inputs[:, 1].bool()
    with torch.no_grad():
        expected = base(inputs[:, 0], attention_mask=inputs[:, 1])[0]
        assert_close(network.model.tokens(inputs)[mask], expected[mask], atol=1e-5, rtol=1e-4)
    options = ["--method", "layer_choice", "--arch", f"depth={network.architecture.depth}", "--out", tmp_path / "out"]
    result = ok(lgx("init", "--source", tmp_path / "source", *options))
    assert not re.search(r"random +0 parameters: (?!none)", result.out)
    opened, about = transformers.AutoModel.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not about["missing_keys"] | about["unexpected_keys"]
    assert type(opened).__name__ == type(base).__name__
    with torch.no_grad():
        assert_close(opened.eval()(inputs[:, 0], attention_mask=inputs[:, 1])[0][mask], expected[mask])


def test_heads_have_the_width_of_the_source():
    source = HFArchitecture(4, 96, 6, heads_per_group=3, kind="language", config='{"model_type":"llama"}')
    for text, heads in (("depth=2", 6), ("num_heads=3", 3), ("embed_dim=48,num_heads=6", 6), ("embed_dim=48", 3)):
        size = parse_for(text, "language", None, source)
        assert (size.head_width, size.num_heads, size.config) == (16, heads, source.config), text
    assert parse_for("embed_dim=48,num_heads=3,head_dim=8", "language", None, source).head_width == 8
    neox = HFArchitecture(4, 96, 6, kind="language", config='{"model_type":"gpt_neox"}')
    with pytest.raises(UserError, match="rotary positions have other angles in heads of width 32"):
        neox.replace(num_heads=3).check_source(neox, "x")


def test_layers_that_depend_on_their_number_are_kept_from_the_front_alone(tmp_path):
    config = transformers.GPT2Config(
        n_embd=32, n_layer=3, n_head=4, vocab_size=60, scale_attn_by_inverse_layer_idx=True
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    first = LayerChoice(str(tmp_path), "0 1")
    initialize(first.named_size("depth=2", None), first)
    others = LayerChoice(str(tmp_path), "0 2")
    with pytest.raises(UserError, match="depends on its number"):
        initialize(others.named_size("depth=2", None), others)


def test_the_default_of_weight_subcloning_measures_and_keeps_layers_with_their_kinds(tmp_path):
    sizes = {"num_key_value_heads": 4, "head_dim": 8, "sliding_window": 3, "num_hidden_layers": 8}
    plain = saved(tmp_path, "Gemma3ForCausalLM", **sizes)
    initializer = WeightSubcloning(str(tmp_path))
    start = initialize(initializer.named_size("depth=4", None), initializer)
    kept = initializer.layers(4)
    assert kept == [0, 1, 6, 7]
    types = [plain.config.layer_types[i] for i in kept]
    assert start.architecture.configuration().layer_types == types


def test_a_folder_of_another_type_is_named(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "clip", "architectures": ["CLIPModel"]}))
    torch.save({}, tmp_path / "pytorch_model.bin")
    sentence = refusal(lgx("init", "--source", tmp_path, "--arch", "depth=2", "--out", tmp_path / "out"))
    assert "is a 'clip' of transformers, which lgx does not read" in sentence
