"""Networks of transformers that read texts: read from folders, counted, cut, written again, and refused."""

import json
import shutil
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from lgx.architectures import HFArchitecture, parse_for
from lgx.artifacts.pretrained import load_pretrained
from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.initialization.width import heads_whole, narrow
from lgx.methods import WeightSelection, WeightSubcloning
from tests.support.command_line import lgx, ok
from tests.support.text_networks import EACH_TEXT, padded_ids, plain_network, transformers

BERT = '{"model_type":"bert"}'


def logits(plain: Any, texts: torch.Tensor) -> torch.Tensor:
    """The logits of a classifier, or those of a language model's tokens, that plain transformers computes."""
    types = {"token_type_ids": texts[:, 2]} if plain.config.model_type == "bert" else {}
    with torch.no_grad():
        return of_tokens(plain(texts[:, 0], attention_mask=texts[:, 1], **types).logits, texts)


def of_tokens(values: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
    """The logits of a classifier, or those of a language model's tokens without padding."""
    return values.detach() if values.ndim == 2 else values[texts[:, 1] == 1].detach()


@pytest.mark.parametrize("form", EACH_TEXT)
def test_a_folder_gives_the_logits_parameters_and_macs_of_transformers_and_cuts_of_equal_size_keep_them(form, tmp_path):
    plain, texts = plain_network(form), padded_ids()
    plain.save_pretrained(tmp_path)
    expected, network = logits(plain, texts), load_pretrained(str(tmp_path))
    assert_close(of_tokens(network.model(texts), texts), expected, atol=1e-5, rtol=1e-4)
    architecture = network.architecture
    assert parse_for(architecture.spec(), architecture.kind, architecture.num_classes) == architecture
    assert architecture.count_parameters() == sum(p.numel() for p in plain.parameters())
    for initializer in (WeightSelection(str(tmp_path)), WeightSubcloning(str(tmp_path))):
        start = initialize(initializer.named_size("depth=3,embed_dim=48,num_heads=6", None), initializer)
        assert not start.random
        assert_close(of_tokens(start.model.eval()(texts), texts), expected, atol=1e-5, rtol=1e-4)
    plain.set_attn_implementation("eager")
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        plain(torch.full((1, architecture.most_tokens), 5))
    assert architecture.count_macs() == counter.get_total_flops() // 2


@pytest.mark.slow
def test_every_type_that_is_read_can_be_cut():
    from lgx.architectures.hf_config import hidden_key, kinds_of, text_model_types

    read = set()
    for name in text_model_types():
        for kind in kinds_of(name):
            try:
                whole = HFArchitecture(
                    2, 64, 8, mlp_ratio=1.0 if hidden_key(name) else 4.0, max_len=32, vocab_size=64,
                    kind=kind, config=json.dumps({"model_type": name, "pad_token_id": 1}),
                )  # fmt: skip
            except UserError:
                continue
            tensors = dict(whole.build().eval().named_parameters())
            for size in (whole, whole.replace(embed_dim=32, num_heads=4)):
                cut, small = narrow(tensors, whole, size, heads_whole), size.build().eval()
                small.load_state_dict(cut, strict=False)
                assert cut.keys() == dict(small.named_parameters()).keys(), name
                assert small(padded_ids()).isfinite().all(), name
            read.add(name)
    assert len(read) >= 60, sorted(read)


@pytest.mark.parametrize(("form", "dtype"), [("tied", torch.bfloat16), ("gpt2", torch.float16)])
def test_what_is_taken_from_a_folder_of_16_bits_is_written_in_16_bits(form, dtype, tmp_path):
    plain = plain_network(form).to(dtype)
    plain.save_pretrained(tmp_path / "source")
    given, size = ["--source", tmp_path / "source"], "depth=2,embed_dim=16,num_heads=2,mlp_ratio=1.5"
    cut = ok(lgx("init", *given, "--arch", size, "--method", "weight_subcloning", "--out", tmp_path / "cut"))
    assert ", 64 tokens\n" in cut.out
    ok(lgx("init", *given, "--arch", "depth=2", "--method", "vanilla_lg", "--layers", 1, "--out", tmp_path / "partly"))
    ok(lgx("init", "--source", tmp_path / "cut", "--arch", size, "--out", tmp_path / "again"))
    ok(lgx("export", tmp_path / "source", "--out", tmp_path / "whole"))
    for name in ("cut", "partly", "whole"):
        opened = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / name, dtype="auto")
        assert opened.dtype == dtype, name
        assert json.loads((tmp_path / name / "config.json").read_text())["dtype"] == str(dtype).removeprefix("torch.")
        assert {tensor.dtype for tensor in load_file(tmp_path / name / "model.safetensors").values()} == {dtype}
    assert {tensor.dtype for tensor in load_file(tmp_path / "again/model.safetensors").values()} == {dtype}
    assert all(torch.equal(p, plain.state_dict()[name]) for name, p in opened.named_parameters())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A Llama with groups of heads."""
    path = tmp_path_factory.mktemp("llama")
    plain_network("llama").save_pretrained(path)
    return path


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"quantization_config": {"quant_method": "gptq"}}, "the weights are quantized"),
        ({"num_hidden_layers": 4}, "the weights beside it lack model.layers.3"),
        ({"num_hidden_layers": 2}, "describes 2 layers, but the weights also hold model.layers.2"),
        ({"num_key_value_heads": 4}, "num_key_value_heads 4 does not divide the 6 heads"),
        ({"intermediate_size": 90}, "down_proj.weight has shape .48, 96., but the configuration gives .48, 90."),
        ({"hidden_size": 0}, "hidden_size is .*, expected one whole number"),
        ({"model_type": "t5"}, "encoder-decoder"),
    ],
)
def test_a_folder_with_another_configuration_is_refused(folder, tmp_path, values, words):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    about = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(about | values))
    with pytest.raises(UserError, match=words):
        load_pretrained(str(copy))


def test_missing_tensors_are_named_and_code_beside_weights_is_not_run(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    config, weights = copy / "config.json", load_file(copy / "model.safetensors")
    (copy / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    about = {**json.loads(config.read_text()), "auto_map": {"AutoModelForCausalLM": "evil.Model"}}
    config.write_text(json.dumps(about))
    assert load_pretrained(str(copy)).architecture == load_pretrained(str(folder)).architecture
    assert not (tmp_path / "ran").exists()
    lost = "model.layers.1.self_attn.k_proj.weight"
    save_file({name: t for name, t in weights.items() if name != lost}, copy / "model.safetensors")
    with pytest.raises(UserError, match=f"lack {lost}"):
        load_pretrained(str(copy))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"heads_per_group": 5}, "heads_per_group 5 does not divide num_heads 12"),
        ({"heads_per_group": 2, "config": BERT}, "bert has no groups of heads"),
        ({"kind": "language", "config": BERT}, "bert is an encoder"),
        ({"head_dim": 32, "config": BERT}, "leave out head_dim"),
        ({"config": '{"model_type":"nothing"}'}, "is not the type of a language model"),
        ({"config": '{"model_type":"esm"}'}, "of esm do not all do the same .*choose another type"),
        ({"config": '{"model_type":"gemma4_assistant"}'}, "gemma4_assistant(: is not supported|' is not the type)"),
        *(({"config": text}, "must be a JSON object with a model_type") for text in ("llama", "[]", '{"model_type":')),
    ],
)
def test_configurations_that_are_not_read_are_refused(values, words):
    with pytest.raises(UserError, match=words):
        HFArchitecture(**values)
