"""Starts from networks that read texts agree with a plain loop over the parameters, each written down by name."""

import json
import re
from functools import cache
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from lgx.architectures import HFArchitecture
from lgx.architectures.hf import describe_config
from lgx.commands.init import data_for_sizes
from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.initialization.width import evenly, evenly_spaced, narrow
from lgx.methods import WeightSelection, WeightSubcloning
from lgx.methods.initializers import initializer_for
from lgx.methods.weight_subcloning.importance import influence, on_inputs
from lgx.methods.weight_subcloning.initializer import layers_by_change
from tests.support.text_networks import padded_ids, plain_network
from tests.support.tokenizers_of_models import write_tokenizer

SIDES = {
    "llama": {
        r"embed_tokens|lm_head": "V E", r"q_proj": "Q E", r"[kv]_proj": "K E", r"o_proj": "E Q",
        r"gate_proj|up_proj": "H E", r"down_proj": "E H", r"norm": "E",
    },
    "phi3": {
        r"embed_tokens|lm_head": "V E", r"qkv_proj": "QKK E", r"o_proj": "E Q", r"gate_up_proj": "HH E",
        r"down_proj": "E H", r"norm": "E",
    },
    "gpt2": {
        r"wte|wpe|lm_head": "V E", r"attn\.c_attn": "E QQQ", r"attn\.c_proj": "Q E", r"c_fc": "E H",
        r"mlp\.c_proj": "H E", r"ln_": "E",
    },
    "bert": {
        r"LayerNorm": "E", r"_embeddings|classifier": "V E", r"query|key|value": "Q E", r"attention\.output": "E Q",
        r"pooler": "E e", r"intermediate": "H E", r"output\.dense": "E H",
    },
}  # fmt: skip
"""Parts of names, and the dimensions of their weights: V: none of the width; E: residual stream; Q: queries; QQQ: fused
queries, keys and values; K: keys and values of groups; H: neurons."""
INPUT = {"llama": 1, "phi3": 1, "gpt2": 0, "bert": 1}
"""The dimension of a linear layer's inputs."""
HEADS, GROUPS, WIDTH = 6, {"llama": 3, "phi3": 3, "gpt2": 6, "bert": 6}, 8


def sides_of(form, name):
    """The dimensions of a parameter; a bias has that of its layer's outputs."""
    sides = next(found for part, found in SIDES[form].items() if re.search(part, name)).upper().split()
    if name.endswith("bias") and len(sides) > 1:
        return ["" if (only := sides[1 - INPUT[form]]) == "V" else only]
    return ["" if side == "V" else side for side in sides]


@cache
def source(form):
    plain = plain_network(form)
    architecture = describe_config({**plain.config.to_dict(), "architectures": [type(plain).__name__]}, "config.json")
    model = architecture.build().eval()
    model.load_state_dict(plain.state_dict())
    return model, architecture


def reads(form, kind, **options):
    """A start that reads the network without a file."""
    start, (model, architecture) = kind("source", **options), source(form)
    tensors = dict(model.named_parameters())
    start.__dict__["loaded"] = SimpleNamespace(
        model=model, tensors=tensors, architecture=architecture, require_architecture=lambda _: architecture
    )
    return start


def cut(form, name, tensor, chosen):
    """The chosen elements of every dimension."""
    for dim, side in enumerate(sides_of(form, name)):
        if side:
            parts = tensor.split(lengths(form, side, tensor.shape[dim]), dim)
            tensor = torch.cat(
                [p.index_select(dim, torch.tensor(chosen[s])) for s, p in zip(side, parts, strict=True)], dim
            )
    return tensor


def lengths(form, side, total):
    """Lengths of the parts of a dimension; queries have more heads than keys and values."""
    keys = GROUPS[form] * WIDTH
    return [48 if part == "Q" else keys for part in side] if "K" in side else [total // len(side)] * len(side)


def named_in(form, name, layers):
    """The name in the descendant, None if the layer is left out."""
    found = re.search(r"(?<=\.)\d+(?=\.)", name)
    if found is None:
        return name
    layer = int(found[0])
    return name[: found.start()] + str(layers.index(layer)) + name[found.end() :] if layer in layers else None


def importance(form, side, layer):
    """Mean-normalized norms of rows and columns, summed over the matrices; of a layer, or of all for the stream."""
    total = 0
    for name, tensor in source(form)[0].named_parameters():
        if tensor.ndim < 2 or (side != "E" and f".{layer}." not in name):
            continue
        for dim, own in enumerate(sides_of(form, name)):
            if own and own[0] in {"E": "E", "H": "H", "Q": "QK"}[side]:
                parts = (
                    tensor.double().movedim(dim, 0).flatten(1).norm(dim=1).split(lengths(form, own, tensor.shape[dim]))
                )
                for_each = [
                    torch.cat([part[g * WIDTH : (g + 1) * WIDTH] for g in (0, 0, 1, 1, 2, 2)]) if kind == "K" else part
                    for kind, part in zip(own, parts, strict=True)
                ]
                norms = torch.stack(for_each).mean(0)
                total = total + norms / norms.mean()
    return total.detach()


def best(values, count):
    return sorted(sorted(range(len(values)), key=lambda i: -float(values[i]))[:count])


@st.composite
def sizes(draw, form):
    """A smaller size: depth, groups, heads of a group, width of a head, neurons."""
    groups = draw(st.integers(1, GROUPS[form]))
    per_group = draw(st.integers(1, HEADS // GROUPS[form]))
    width = draw(st.sampled_from([4, 6, 8]))
    return draw(st.integers(1, 3)), groups, per_group, width, draw(st.integers(4, 48)) * 2


def target_of(form, depth, groups, per_group, width, neurons):
    heads = groups * per_group
    options = {"heads_per_group": per_group, "mlp_ratio": neurons / (heads * width)}
    return source(form)[1].replace(depth=depth, embed_dim=heads * width, num_heads=heads, **options)


@pytest.mark.parametrize("form", SIDES)
def test_weight_selection_is_that_of_a_plain_loop(form):
    @settings(max_examples=8, deadline=None)
    @given(sizes(form))
    def check(size):
        depth, groups, per_group, width, neurons = size
        embed = groups * per_group * width
        if embed == 48:  # then heads must be those of the source
            return
        chosen = {side: evenly_spaced(48, embed) for side in "EQK"} | {"H": evenly_spaced(96, neurons)}
        if GROUPS[form] < HEADS:  # whole groups, and pairs of elements that are turned together
            within = [i + half for half in (0, 4) for i in evenly_spaced(4, width // 2)]
            kept = evenly_spaced(GROUPS[form], groups)
            heads = [2 * group + head for group in kept for head in evenly_spaced(2, per_group)]
            chosen["Q"], chosen["K"] = ([WIDTH * part + i for part in parts for i in within] for parts in (heads, kept))
        found = reads(form, WeightSelection)(target_of(form, *size))
        expected = {
            own: cut(form, name, tensor, chosen)
            for name, tensor in source(form)[0].named_parameters()
            if (own := named_in(form, name, range(depth)))
        }
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())

    check()


@pytest.mark.parametrize(
    ("form", "elements"),
    [
        ("llama", [0, 2, 4, 6, 8, 10, 12, 14]),  # i is turned with i + 8
        ("nemotron", [0, 2, 4, 6, 8, 10, 12, 14]),  # i < 4 with i + 4, the last eight are not turned
        ("cohere", [0, 1, 4, 5, 8, 9, 12, 13]),  # 2i with 2i + 1
        ("glm", [0, 1, 4, 5, 8, 10, 12, 14]),  # 2i < 8 with 2i + 1, the last eight are not turned
    ],
)
def test_queries_of_whole_heads_meet_the_same_elements_of_keys_at_the_same_angles(form, elements):
    sizes = {"heads_per_group": 4, "head_dim": 16, "mlp_ratio": 2.0, "max_len": 16, "vocab_size": 64}
    wide = HFArchitecture(2, 32, 16, **sizes, kind="language", config=json.dumps({"model_type": form}))
    small = wide.replace(num_heads=4, heads_per_group=2, head_dim=8)
    torch.manual_seed(0)
    model, narrower = wide.build().eval(), small.build().eval()
    groups = (0, 2)
    heads = [4 * group + head for group in groups for head in (0, 2)]
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            tensor.normal_(std=tensor.shape[-1] ** -0.5 if tensor.ndim > 1 else 1)
            if match := re.search(r"\.([qkvo])_proj", name):
                kept = [16 * head + i for head in (groups if match[1] in "kv" else heads) for i in elements]
                unused = torch.ones(tensor.shape[1 if match[1] == "o" else 0], dtype=torch.bool)
                unused[kept] = False
                tensor.masked_fill_(unused if match[1] == "o" else unused.reshape(-1, *[1] * (tensor.ndim - 1)), 0)
        cut = narrow(dict(model.named_parameters()), wide, small, evenly)
        scaled = {name: tensor * 0.5**0.5 if ".q_proj" in name else tensor for name, tensor in cut.items()}
        narrower.load_state_dict(scaled, strict=False)  # tied heads have one name
        assert_close(narrower(padded_ids()), model(padded_ids()), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("form", SIDES)
def test_weight_subcloning_by_norms_is_that_of_a_plain_loop(form):
    @settings(max_examples=8, deadline=None)
    @given(sizes(form))
    def check(size):
        depth, groups, per_group, width, neurons = size
        layers = {1: [0], 2: [0, 2], 3: [0, 1, 2]}[depth]
        stream = best(importance(form, "E", 0), groups * per_group * width)
        expected = {}
        for name, tensor in source(form)[0].named_parameters():
            if (own := named_in(form, name, layers)) is None:
                continue
            chosen, layer = {"E": stream}, re.search(r"\.(\d+)\.", name)
            if layer:
                heads = importance(form, "Q", layer[1]).reshape(GROUPS[form], -1, WIDTH)
                of_elements, half = heads.mean((0, 1)), WIDTH // 2
                within = best(of_elements, width)
                if GROUPS[form] < HEADS:  # pairs of elements that are turned together
                    pairs = best(of_elements[:half] + of_elements[half:], width // 2)
                    within = [i + place for place in (0, half) for i in pairs]
                kept = best(heads.mean((1, 2)), groups)
                chosen["H"] = best(importance(form, "H", layer[1]), neurons)
                chosen["K"] = [group * WIDTH + i for group in kept for i in within]
                of_groups = [(g * heads.shape[1] + head) for g in kept for head in best(heads[g].mean(1), per_group)]
                chosen["Q"] = [head * WIDTH + i for head in of_groups for i in within]
            expected[own] = cut(form, name, tensor, chosen)
            is_embedding = re.search(r"embed|wte|wpe", name)
            if own.endswith("weight") and tensor.ndim == 2 and not is_embedding:
                dim = INPUT[form] if "lm_head" not in name else 1
                expected[own] = expected[own] * (tensor.shape[dim] / expected[own].shape[dim]) ** 0.5
        found = reads(form, WeightSubcloning)(target_of(form, *size))
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            assert_close(found[name], tensor, msg=name)

    check()


def test_heads_with_their_queries_keys_and_values_side_by_side_are_ranked_as_heads():
    start, (model, architecture) = reads("gpt_neox", WeightSubcloning), source("gpt_neox")
    found = start(architecture.replace(embed_dim=16, num_heads=2))["gpt_neox.layers.1.attention.query_key_value.bias"]
    qkv = model.gpt_neox.layers[1].attention.query_key_value.weight.double().reshape(6, 3, 8, 48).norm(dim=3).mean(1)
    dense = model.gpt_neox.layers[1].attention.dense.weight.double().norm(dim=0).reshape(6, 8)
    kept = best((qkv / qkv.mean() + dense / dense.mean()).mean(1), 2)
    bias = model.gpt_neox.layers[1].attention.query_key_value.bias
    assert torch.equal(found, bias.reshape(6, 24)[kept].flatten())


@pytest.mark.parametrize("form", ["llama", "gpt2", "bert"])
def test_activations_and_changes_are_measured_on_tokens_without_padding(form):
    model, architecture = source(form)
    inputs = padded_ids()
    is_token = inputs[:, 1] == 1
    found, neurons = on_inputs(model, architecture, inputs), []
    block = architecture.blocks(model)[1]
    last = {"llama": "mlp.down_proj", "gpt2": "mlp.c_proj", "bert": "output.dense"}[form]
    hook = block.get_submodule(last).register_forward_pre_hook(lambda _, given: neurons.append(given[0][is_token]))
    with torch.no_grad():
        before = model(inputs)
        expected = neurons[0].abs().double().mean(0)
    hook.remove()
    owner = next(owner for kind, owner in found.elements if kind == "hidden" and ".1." in owner)
    assert_close(found.elements["hidden", owner], 2 * expected / expected.mean())
    assert len(found.layers) == 3
    assert sorted(layers_by_change(model, architecture, inputs)) == [0, 1, 2]
    assert torch.equal(model(inputs), before)


@pytest.mark.parametrize(("network", "tokenizer", "count"), [("bert", "bert", 4), ("gpt2", "bare", 3)])
def test_texts_are_read_with_the_tokenizer_beside_the_network(tmp_path, network, tokenizer, count):
    plain = plain_network(network)
    plain.resize_token_embeddings(320)
    folder = write_tokenizer(tmp_path / network, tokenizer)
    plain.save_pretrained(folder)
    texts = tmp_path / "texts.txt"
    texts.write_text("the cat sat\n\nthe dog saw\na cat on the mat\n\na mat")  # lines, or parts for a language model
    start = WeightSubcloning(str(folder), str(texts), images=5)
    result = initialize(start.named_size("depth=2,embed_dim=16,num_heads=2", None), start)
    assert not result.random
    assert start.sample.shape[0] == count
    assert result.notes[1] == f"ranked    by activation on {count} texts of {texts}"
    (tmp_path / "table").mkdir()
    (tmp_path / "table/labels.csv").write_text("text,label\nthe cat,1\n")  # the name of a table of images, too
    assert data_for_sizes({"method": "weight_subcloning", "data": str(tmp_path / "table")}, ["a budget"])[0] is None
    assert WeightSubcloning(str(folder), str(tmp_path / "table")).sample.shape[0] == 1
    (tmp_path / "numbers.jsonl").write_text('{"text": 3}')
    with pytest.raises(UserError, match=r"numbers.jsonl: has no text in column 'text'"):
        WeightSubcloning(str(folder), str(tmp_path / "numbers.jsonl")).ranked  # noqa: B018
    with pytest.raises(UserError, match=r"data: .*nothing does not exist"):
        WeightSubcloning(str(folder), str(tmp_path / "nothing")).ranked  # noqa: B018
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"source: .* has only special tokens"):
        WeightSubcloning(str(folder), str(texts)).ranked  # noqa: B018


def test_block_influence_is_that_of_plain_hooks_on_tokens_without_padding():
    model, architecture = source("llama")
    inputs, changes, hooks = padded_ids(), [], []
    is_token = inputs[:, 1] == 1

    def note(_module, given, output):
        before, after = (x[is_token].double() for x in (given[0], output))
        changes.append(1 - (before * after).sum(-1) / before.norm(dim=-1) / after.norm(dim=-1))

    for block in architecture.blocks(model):
        hooks.append(block.register_forward_hook(note))
    with torch.no_grad():
        model(inputs)
    for hook in hooks:
        hook.remove()
    assert len({len(change) for change in changes}) == 1
    assert_close(influence(model, architecture, inputs), torch.stack(changes).mean(1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", [WeightSelection, WeightSubcloning])
def test_a_narrower_classifier_starts_from_a_language_model_with_a_head_of_its_own(kind, tmp_path):
    plain_network("llama").save_pretrained(tmp_path)
    start = kind(str(tmp_path))
    result = initialize(start.named_size("depth=2,embed_dim=16,num_heads=2,mlp_ratio=2", 5), start, head="new")
    assert result.random == ("score.weight",)


@pytest.mark.parametrize("method", ["front", "mimetic", "snapvit", "structured_pruning"])
def test_starts_for_images_alone_refuse_networks_of_texts_in_one_sentence(method, tmp_path):
    plain_network("llama").save_pretrained(tmp_path)
    options = {} if method == "mimetic" else {"source": str(tmp_path)}
    options |= {"data": str(tmp_path)} if method == "snapvit" else {}
    start = initializer_for(method=method, seed=0, **options)
    target = HFArchitecture(2, 16, 2, kind="language") if method == "mimetic" else start.named_size("depth=2", None)
    with pytest.raises(UserError, match=r"(?s)^[^\n]*is for image models, but [^\n]* reads text[^\n]*$"):
        initialize(target, start)
