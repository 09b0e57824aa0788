"""GPT-2 classifiers: described, sampled, predicted like ViTs, run from factors, exported to plain transformers."""

import json
import sys
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from lgx.architectures import (
    GPT2_NAMES,
    NAMES,
    GPT2Architecture,
    ViTArchitecture,
    architecture_from_dict,
    architecture_set,
    name_of,
    parse_any_architecture,
    parse_architecture,
    read_architectures,
    sample_architectures,
)
from lgx.artifacts.export_gpt2 import write_text_descendant
from lgx.errors import UserError
from lgx.hypernet import Hypernet, HypernetConfig, computational_graph, tiled_parameters
from lgx.hypernet.execution import execute, execute_with_features
from lgx.hypernet.lowrank import LowRankTensor, frobenius_norm
from lgx.hypernet.meta import guided_losses, meta_losses
from tests.support.command_line import lgx, python

transformers = pytest.importorskip("transformers", reason="needs the nlp extra: pip install 'lgx[nlp]'")

TINY = {"width": 16, "layers": 2, "heads": 4, "max_shape": (48, 48, 4, 4), "rank": 5, "max_size": 256}
GPT2 = GPT2Architecture(2, 24, 3, max_len=12, vocab_size=101, num_classes=3)
LAYOUTS = [("official", None), ("residual", 120), ("aligned", None), ("aligned", 101)]


def texts(*lengths: int, vocab_size: int = 101) -> torch.Tensor:
    """Random texts of these lengths, padded on the right."""
    ids = torch.full((len(lengths), max(lengths)), vocab_size - 1)
    for i, length in enumerate(lengths):
        ids[i, :length] = torch.randint(0, vocab_size - 1, (length,))
    return ids


def hypernet(**options) -> Hypernet:
    torch.manual_seed(0)
    return Hypernet(HypernetConfig(**{**TINY, "num_classes": 3, **options}))


# -- description -------------------------------------------------------------------------------------------------


def test_gpt2_small_has_its_published_size():
    # 124,439,808 without a head (Radford et al.'s smallest), and 2 x 768 for the head.
    assert parse_any_architecture("12-GPT2").count_parameters() == 124_439_808 + 2 * 768


def test_macs_count_every_product_once():
    n, d = GPT2.max_len, GPT2.embed_dim
    per_layer = n * 12 * d * d + 2 * n * n * d
    assert GPT2.count_macs() == 2 * per_layer + 3 * d


@pytest.mark.parametrize("architecture", [GPT2, GPT2_NAMES["3-GPT2"], GPT2Architecture(3, 192, 3, max_len=128)])
def test_names_specs_and_dictionaries_round_trip(architecture):
    plain = architecture.replace(num_classes=2)
    assert parse_any_architecture(name_of(architecture)) == parse_any_architecture(architecture.spec()) == plain
    assert architecture_from_dict(json.loads(json.dumps(architecture.to_dict()))) == architecture


def test_one_parser_and_one_dictionary_reader_serve_both_families():
    assert parse_any_architecture("6-Small,img_size=64", num_classes=7) == parse_architecture(
        "6-Small,img_size=64", num_classes=7
    )
    vit = NAMES["6-Small"]
    assert architecture_from_dict(vit.to_dict()) == vit
    assert parse_any_architecture("3-GPT2,max_len=128", num_classes=5) == GPT2Architecture(
        3, max_len=128, num_classes=5
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("3-GPT", ("3-GPT", "3-GPT2")),
        ("gpt2:6-Small", ("6-Small", "gpt2:depth=6")),
        ("gpt2:depth=3,img_size=32", ("img_size", "max_len")),
        ("3-GPT2,num_heads=5", ("num_heads 5", "768")),
        ("gpt2:depth=0", ("depth", "0")),
        ("gpt2:vocab_size=1", ("vocab_size", "2")),
        ("gpt2:depth=x", ("depth", "'x'")),
    ],
)
def test_mistakes_name_the_key_and_what_would_be_right(text, names):
    with pytest.raises(UserError) as caught:
        parse_any_architecture(text)
    assert all(name in str(caught.value) for name in names)


def test_what_needs_an_image_model_refuses_a_text_model():
    with pytest.raises(UserError, match="reads text"):
        parse_architecture("3-GPT2")
    with pytest.raises(UserError, match="family 'bert'"):
        architecture_from_dict({"family": "bert"})


def test_gpts_1k_is_a_reproducible_prefix_within_its_ranges():
    few, many = list(sample_architectures("GPTs-1K", 10)), list(sample_architectures("GPTs-1K", 300))
    assert many[:10] == few != list(sample_architectures("GPTs-1K", 10, seed=2))
    assert all(isinstance(a, GPT2Architecture) and a.num_heads == 8 and a.embed_dim % 8 == 0 for a in many)
    assert {a.depth for a in many} == set(range(3, 10))
    assert (min(a.embed_dim for a in many), max(a.embed_dim for a in many)) == (72, 256)
    assert all(a.embed_dim >= 176 for a in many if a.depth == 3)


def test_sets_keep_the_base_and_refuse_another_family(tmp_path):
    assert {a.max_len for a in architecture_set("GPTs-1K", 5, GPT2.replace(max_len=64))} == {64}
    with pytest.raises(UserError, match=r"GPTs-1K holds GPT-2s, but 12-Tiny is a ViT; take ViTs-1K or ViTs.-1K"):
        architecture_set("GPTs-1K", 5, ViTArchitecture())
    with pytest.raises(UserError, match=r"ViTs-1K holds ViTs, but gpt2:.* is a GPT-2; take GPTs-1K"):
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


def test_sample_command_writes_gpts():
    result = lgx("sample", "GPTs-1K", "--count", "2")
    assert result.code == 0, result.err
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert [line["family"] for line in lines] == ["gpt2", "gpt2"]


# -- the model ---------------------------------------------------------------------------------------------------


def test_a_built_model_is_transformers_own_but_for_its_signature():
    torch.manual_seed(0)
    model = GPT2.build().eval()
    plain = transformers.GPT2ForSequenceClassification(model.config).eval()
    plain.load_state_dict(model.state_dict())
    ids = texts(5, 9, 1)
    torch.testing.assert_close(model(ids), plain(input_ids=ids, attention_mask=(ids != 100).long()).logits)


def test_padding_changes_nothing():
    torch.manual_seed(0)
    model = GPT2.build().eval()
    ids = texts(4, 7)
    torch.testing.assert_close(model(ids)[:1], model(ids[:1, :4]))


def test_texts_beyond_the_positions_are_refused():
    with pytest.raises(UserError, match="13 tokens, but the architecture has max_len 12"):
        GPT2.build()(texts(13))


def test_dropout_is_off_unless_asked_for():
    ids = texts(6, 6)
    model = GPT2.build()
    assert torch.equal(model(ids), model(ids))
    noisy = GPT2.build(drop_rate=0.5)
    assert not torch.equal(noisy(ids), noisy(ids))


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch):
    for name in [n for n in sys.modules if n == "lgx.architectures.gpt2_model"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UserError, match=r"needs transformers, .*pip install 'lgx\[nlp\]'"):
        GPT2.build("meta")


def test_describing_text_models_imports_no_transformers():
    code = (
        "import sys; from lgx.architectures import parse_any_architecture, sample_architectures;"
        "from lgx.hypernet.graph import computational_graph;"
        "computational_graph(parse_any_architecture('3-GPT2')); list(sample_architectures('GPTs-1K', 3));"
        "assert 'transformers.models.gpt2.modeling_gpt2' not in sys.modules"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


# -- the graph ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("convention", "per_layer"), [("msa", 13), ("plain", 12)])
def test_the_graph_holds_every_parameter_once(convention, per_layer):
    graph = computational_graph(GPT2, convention)
    assert len(graph.nodes) == per_layer * 2 + 6
    named = {n.parameter: n.shape[::-1] if n.form == "transposed" else n.shape for n in graph.nodes if n.parameter}
    expected = {
        k: tuple(v.shape) for k, v in GPT2.build("meta").state_dict().items() if ".ln_" not in k or "bias" not in k
    }
    assert named == expected
    assert [n.parameter for n in graph.nodes if n.head] == ["score.weight"]
    assert all(node.parts == (3 if "c_attn" in (node.parameter or "") else 1) for node in graph.nodes)


def test_distances_follow_the_forward_flow():
    graph = computational_graph(GPT2)
    at = {node.parameter: n for n, node in enumerate(graph.nodes) if node.parameter}
    d = graph.distances
    assert d[0, at["transformer.wte.weight"]] == 1
    assert d[0, at["transformer.wpe.weight"]] == 0
    assert d[at["transformer.wte.weight"], 3] == d[at["transformer.wpe.weight"], 3] == 1
    assert d[at["transformer.h.0.ln_1.weight"], at["transformer.h.0.attn.c_attn.weight"]] == 1
    assert d[at["transformer.h.0.attn.c_attn.bias"], at["transformer.h.0.attn.c_proj.weight"]] == 2  # through msa
    assert d[3, at["transformer.h.0.ln_2.weight"]] == 2  # over the skip connection
    assert d[at["transformer.ln_f.weight"], at["score.weight"]] == 1
    # As in the ViT, whose layers and tail are the same.
    vit = computational_graph(ViTArchitecture(2, 24, 3))
    assert torch.equal(d[3:, 3:], vit.distances[4:-1, 4:-1])


# -- prediction --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("layout", "vocab_size"), LAYOUTS)
def test_factors_give_the_logits_norms_and_gradients_of_the_dense_prediction(layout, vocab_size):
    net = hypernet(layout=layout, vocab_size=vocab_size).double()
    ids, results = texts(5, 12, 7), []
    for dense in (True, False):
        net.zero_grad()
        parameters = net.predict(GPT2, dense=dense)
        assert any(isinstance(p, LowRankTensor) for p in parameters.values()) is not dense
        logits = execute(GPT2, parameters, ids)
        (logits.square().sum() + sum(frobenius_norm(p).double() for p in parameters.values())).backward()
        results.append([logits.detach(), *(p.grad for p in net.parameters() if p.grad is not None)])
    for dense, factored in zip(*results, strict=True):
        torch.testing.assert_close(factored, dense, rtol=1e-5, atol=1e-5)


def test_a_factored_text_model_never_forms_a_matrix(monkeypatch):
    net = hypernet(layout="aligned", vocab_size=101)
    parameters = net.predict(GPT2, dense=False)
    formed = []
    matmul = torch.Tensor.__matmul__
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: formed.append((a.shape, b.shape)) or matmul(a, b))
    execute(GPT2, parameters, texts(5, 9))
    shapes = {tuple(p.shape) for p in parameters.values() if p.ndim == 2}
    assert not shapes & {(a[0], b[-1]) for a, b in formed if len(a) == len(b) == 2}


@pytest.mark.parametrize("decoder", ["low_rank", "conv"])
def test_predictions_load_into_the_model(decoder):
    net = hypernet(decoder=decoder).eval()
    with torch.no_grad():
        parameters = net.predict(GPT2)
    model = GPT2.build().eval()
    model.load_state_dict(parameters)
    ids = texts(3, 8)
    torch.testing.assert_close(model(ids), execute(GPT2, parameters, ids))


@pytest.mark.parametrize("decoder", ["low_rank", "conv"])
def test_conv1d_weights_are_those_of_linear_layers_transposed_and_at_gpt2s_scale(decoder):
    net = hypernet(decoder=decoder, layout="official").eval()
    graph = computational_graph(GPT2)
    straight = replace(
        graph, nodes=tuple(replace(n, form="linear") if n.form == "transposed" else n for n in graph.nodes)
    )
    with torch.no_grad():
        found, expected = net.predict_graphs([graph])[0], net.predict_graphs([straight])[0]
        factors = net.predict_graphs([graph], dense=False)[0]
    for name, tensor in expected.items():
        is_conv1d = tensor.ndim == 2 and ".h." in name
        # A linear layer's has He's scale, sqrt(2 / fan_in).
        wanted = tensor.T * (0.02 / (2 / tensor.shape[1]) ** 0.5) if is_conv1d else tensor
        torch.testing.assert_close(found[name], wanted)
        torch.testing.assert_close(F.relu(factors[name]), F.relu(found[name]))  # any other function densifies


def test_a_network_of_predicted_scale_learns_which_word_a_text_holds():
    """From He's scale and tables of standard deviation 1 it does not, in twice as many steps."""
    architecture = GPT2Architecture(2, 32, 4, max_len=12, vocab_size=101, num_classes=2)
    net = hypernet(layout="aligned", vocab_size=101, rank=8)
    optimizer, generator = torch.optim.AdamW(net.parameters(), lr=5e-4), torch.Generator().manual_seed(0)
    right = []
    for step in range(250):
        ids = torch.randint(10, 100, (32, 12), generator=generator)
        labels = torch.randint(0, 2, (32,), generator=generator)
        ids[torch.arange(32), torch.randint(0, 12, (32,), generator=generator)] = labels  # one telling word, anywhere
        logits = execute(architecture, net.predict(architecture, dense=False), ids)
        optimizer.zero_grad()
        F.cross_entropy(logits, labels).backward()
        optimizer.step()
        if step >= 200:
            right.append((logits.argmax(1) == labels).float().mean())
    assert torch.stack(right).mean() > 0.9


def test_attention_gain_scales_what_attention_says_and_nothing_else():
    with torch.no_grad():
        for architecture, loud, quiet in (
            (GPT2, ("attn.c_proj.weight",), ("mlp.c_proj.weight", "wpe.weight")),
            (parse_architecture("depth=2,embed_dim=16,num_heads=2,patch_size=8,img_size=16", num_classes=3),
             ("attn.proj.weight",), ("mlp.fc2.weight", "pos_embed")),
        ):  # fmt: skip
            plain, balanced = hypernet(layout="aligned"), hypernet(layout="aligned", attention_gain=4.0)
            balanced.load_state_dict(plain.state_dict())
            one, other = plain.predict(architecture), balanced.predict(architecture)
            factored = balanced.predict(architecture, dense=False)
            for name, tensor in one.items():
                factor = 4 if name.endswith(loud) else 0.25 if name.endswith(quiet) else 1
                torch.testing.assert_close(other[name], factor * tensor)
                product = factored[name].to_dense() if isinstance(factored[name], LowRankTensor) else factored[name]
                torch.testing.assert_close(product, other[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("gain", [0, -1, float("nan"), float("inf"), "6"])
def test_a_gain_that_is_none_is_refused(gain):
    with pytest.raises(UserError, match="attention_gain"):
        hypernet(attention_gain=gain)


def test_tokens_share_embeddings_only_where_they_are_tiled():
    with torch.no_grad():
        tiled = hypernet(layout="aligned").predict(GPT2)["transformer.wte.weight"]
        own = hypernet(layout="aligned", vocab_size=101).predict(GPT2)["transformer.wte.weight"]
    assert torch.equal(tiled[:48], tiled[48:96])
    assert torch.pdist(own).min() > 0.002
    assert 0.01 < own.std() < 0.04


def test_tables_larger_than_max_shape_are_reported_as_tiled():
    graph = computational_graph(GPT2)
    assert "transformer.wte.weight" in tiled_parameters(graph, hypernet(layout="aligned").config)
    assert "transformer.wte.weight" not in tiled_parameters(graph, hypernet(layout="aligned", vocab_size=101).config)


def test_a_vocabulary_of_its_own_is_checked():
    with pytest.raises(UserError, match="knows 50 tokens, but the architecture has 101"):
        hypernet(layout="aligned", vocab_size=50).predict(GPT2)
    for options in ({"layout": "official"}, {"decoder": "conv", "layout": "aligned"}):
        with pytest.raises(UserError, match="vocab_size needs"):
            HypernetConfig(**options, vocab_size=10)
    with pytest.raises(UserError, match="vocab_size must be at least 1"):
        HypernetConfig(layout="aligned", vocab_size=0)


def test_one_batch_of_graphs_predicts_what_each_alone_does():
    net = hypernet(layout="aligned", vocab_size=101).eval()
    several = [GPT2, GPT2.replace(depth=3, embed_dim=40, num_heads=4), GPT2.replace(num_classes=2)]
    with torch.no_grad():
        for together, architecture in zip(net.predict_many(several), several, strict=True):
            torch.testing.assert_close(together, net.predict(architecture), rtol=1e-4, atol=1e-5)


def test_random_architectures_of_gpts_1k_are_predicted_whole():
    small = GPT2.replace(vocab_size=300, max_len=16)
    net = hypernet(layout="aligned", vocab_size=300).eval()
    with torch.no_grad():
        for architecture in dict.fromkeys(architecture_set("GPTs-1K", 10, small)):
            predicted = net.predict(architecture)
            expected = {k: v.shape for k, v in architecture.build("meta").state_dict().items()}
            assert {k: v.shape for k, v in predicted.items()} == expected
            assert all(tensor.isfinite().all() for tensor in predicted.values())


def test_features_are_those_that_the_head_reads():
    parameters = hypernet().predict(GPT2)
    ids = texts(4, 9)
    logits, features = execute_with_features(GPT2, parameters, ids)
    torch.testing.assert_close(logits, execute(GPT2, parameters, ids))
    torch.testing.assert_close(logits, features @ parameters["score.weight"].T)


@pytest.mark.parametrize("projection", ["predicted", "random", "none"])
def test_meta_and_guided_losses_reach_the_whole_hypernetwork(projection):
    net = hypernet(layout="aligned", vocab_size=101, task_width=4)
    sizes = [GPT2, GPT2.replace(depth=3, embed_dim=16, num_heads=2)]
    ids, labels, task = texts(6, 3), torch.tensor([0, 2]), torch.randn(4)
    labels_loss, norms = meta_losses(net, sizes, ids, lambda logits: F.cross_entropy(logits, labels), task)
    (labels_loss + 1e-3 * norms).backward()
    assert all(p.grad.count_nonzero() for p in (net.decoder.basis_tokens, net.encoder.blocks[0].film.gamma.weight))
    net.zero_grad()
    guided, _ = guided_losses(
        net, sizes, ids, lambda logits, features: features.square().mean() + logits.mean(), 7, task, projection
    )
    guided.backward()
    assert net.encoder.ops.weight.grad.count_nonzero()


def test_factored_execution_works_under_autocast():
    net = hypernet(layout="aligned", vocab_size=101)
    ids = texts(5, 9)
    with torch.autocast("cpu", torch.bfloat16):
        logits = execute(GPT2, net.predict(GPT2, dense=False), ids)
    torch.testing.assert_close(logits.float(), execute(GPT2, net.predict(GPT2), ids), rtol=0.1, atol=0.1)
    logits.float().sum().backward()


# -- export ------------------------------------------------------------------------------------------------------

PLAIN = """
import sys, torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, GPT2LMHeadModel
folder, given = sys.argv[1:]
given = load_file(given)
model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
ids = given["ids"]
logits = model(input_ids=ids, attention_mask=(ids != model.config.pad_token_id).long()).logits
torch.testing.assert_close(logits, given["logits"])
assert type(model).__name__ == "GPT2ForSequenceClassification" and model.config.id2label[1] == "right"
assert not any(name.split(".")[0] == "lgx" for name in sys.modules)
"""


def test_an_exported_descendant_gives_the_same_logits_in_plain_transformers(tmp_path):
    net = hypernet(layout="aligned", vocab_size=101).eval()
    ids = texts(3, 12, 6)
    with torch.no_grad():
        parameters = net.predict(GPT2)
        model = GPT2.build()
        model.load_state_dict(parameters)
        save_file({"ids": ids, "logits": execute(GPT2, parameters, ids)}, tmp_path / "given.safetensors")
    out = tmp_path / "descendant"
    for _ in range(2):  # a folder that was written here may be replaced
        write_text_descendant(out, model, label_names=("left", "right", "other"), card={"task": "cola"})
    done = python("-c", PLAIN, out, tmp_path / "given.safetensors", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert '| task | "cola" |' in (out / "README.md").read_text()
    write_text_descendant(tmp_path / "weights.safetensors", model)
    assert load_file(tmp_path / "weights.safetensors").keys() == parameters.keys()


def test_a_language_models_tied_head_is_written_once_and_tied_again(tmp_path):
    torch.manual_seed(0)
    config = GPT2.build("meta").config
    model = transformers.GPT2LMHeadModel(config).eval()
    out = tmp_path / "ancestor"
    write_text_descendant(out, model)
    stored = load_file(out / "model.safetensors")
    assert "transformer.wte.weight" in stored
    assert "lm_head.weight" not in stored
    again = transformers.GPT2LMHeadModel.from_pretrained(out).eval()
    assert again.lm_head.weight is again.transformer.wte.weight
    ids = texts(4, 4)
    torch.testing.assert_close(again(input_ids=ids).logits, model(input_ids=ids).logits)
    torch.testing.assert_close(model.lm_head.weight, again.lm_head.weight)
    assert model.lm_head.weight is model.transformer.wte.weight  # what was written is untouched


def test_a_folder_of_something_else_is_never_replaced(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="no model folder that lgx wrote"):
        write_text_descendant(tmp_path, GPT2.build())
    assert (tmp_path / "notes.txt").read_text() == "mine"
