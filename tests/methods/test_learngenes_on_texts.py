"""Learngenes of networks that read texts: training from the command line, the file, and descendants of other sizes."""

import csv
import json
import re
from math import sqrt
from pathlib import Path

import pytest
import torch
from torch.func import functional_call

from data_modules.text.tokenizer import load_tokenizer, padded
from lgx.architectures import Architecture, parse_for
from lgx.artifacts.learngene import Learngene
from lgx.commands import api
from lgx.errors import UserError
from lgx.initialization import Sizes, initialize
from lgx.methods.initializers import initializer_for
from lgx.methods.nested.front import size_grid
from lgx.methods.nested.sizes import parse_size, slice_text
from lgx.methods.nested.slicing import ordered, slice_network, sliced
from lgx.methods.weight_subcloning.importance import on_inputs
from tests.support.command_line import Result, arguments, lgx, ok
from tests.support.fake_text import SIZE
from tests.support.gpt2 import texts, transformers

AUTO = {"text": transformers.AutoModelForSequenceClassification, "language": transformers.AutoModelForCausalLM}
TEXTS = (9,) * 5
"""Lengths of texts."""
INPUTS = f"max_len=16,vocab_size={SIZE}"
WIDE = f"hf:depth=4,embed_dim=32,num_heads=4,mlp_ratio=2,{INPUTS}"
ARCHS = {
    "gpt2": f"hf:depth=4,embed_dim=24,num_heads=3,{INPUTS}",
    "llama": f'{WIDE},heads_per_group=2,config={{"model_type":"llama","pad_token_id":{SIZE - 1}}}',
    "qwen3": f'{WIDE},heads_per_group=2,head_dim=12,config={{"model_type":"qwen3","tie_word_embeddings":true}}',
    **{name: f"{WIDE},type={name}" for name in ("phi3", "gpt_neox", "bert")},
}
KINDS = [(name, kind) for name in ARCHS for kind in ("text", "language") if (name, kind) != ("bert", "language")]


def parsed(name: str, kind: str) -> Architecture:
    return parse_for(ARCHS[name], kind, 2)


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plain texts."""
    folder = tmp_path_factory.mktemp("documents")
    lines = (json.dumps({"text": f"the document {k} has {'words ' * (k % 7)}"}) for k in range(40))
    (folder / "all.jsonl").write_text("\n".join(lines))
    return folder


@pytest.fixture
def fit(text_root: Path, documents: Path, tmp_path: Path):
    """``fit(kind, model, …)`` trains on tiny texts for two steps, and returns the learngene."""

    def run(kind: str, model: str, *options: object) -> Path:
        base = [w for w in arguments("fit", model, text_root, tmp_path) if not w.startswith(("--data", "--model.arch"))]
        data = {
            "text": ["--data=SST2", f"--data.root={text_root}"],
            "language": ["--data=TextFiles", f"--data.root={documents}", f"--data.tokenizer={text_root}/gpt2_vocab"],
        }[kind]
        sizes = ["--data.max_len=16", f"--data.vocab_size={SIZE}", "--data.batch_size=8", "--trainer.max_steps=2"]
        done: Result = ok(lgx(*base, *data, *sizes, f"--name={model}", *options))
        assert "learngene" in done.out
        return tmp_path / "test" / model / "seed0" / "final.learngene.safetensors"

    return run


def write_ancestor(name: str, kind: str, folder: Path) -> tuple[Path, Architecture, torch.nn.Module]:
    """File of a network with random numbers, and the network."""
    torch.manual_seed(0)
    architecture = parsed(name, kind)
    network = architecture.build().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(0.3 * torch.randn_like(parameter))
    path = folder / "ancestor.learngene.safetensors"
    Learngene("ancestor", architecture, dict(network.state_dict())).save(path)
    return path, architecture, network


def descendant(source: Path, size: str) -> torch.nn.Module:
    """A descendant of a learngene, which has all parameters of its source."""
    initializer = initializer_for(str(source))
    started = initialize(initializer.named_size(size, None), initializer)
    assert started.random == ()
    return started.model.eval()


@pytest.mark.parametrize(
    ("name", "kind", "model", "options"),
    [
        ("gpt2", "text", "Distill", ["--model.guidance=features"]),
        ("bert", "text", "SWS", ["--model.stages=[1,2,1]", "--model.start=middle"]),
        ("qwen3", "language", "SWS", ["--model.stages=[1,2,1]"]),
        ("llama", "text", "TLEG", ["--model.start=fit"]),
        pytest.param("gpt2", "language", "TLEG", [], marks=pytest.mark.slow),
    ],
)
def test_layers_are_learned_and_fill_deeper_and_narrower_networks(fit, tmp_path, name, kind, model, options):
    path, architecture, _ = write_ancestor(name, kind, tmp_path)
    file = fit(kind, model, f"--model.arch={ARCHS[name]}", f"--model.ancestor={path}", *options)
    learngene = Learngene.load(file)
    assert learngene.num_layers == {"Distill": 4, "SWS": 3, "TLEG": 2}[model]
    assert not learngene.tensors.keys() & architecture.tied_names().keys()
    for width, heads in ((architecture.embed_dim, architecture.num_heads), (16, 2)):
        network = descendant(file, f"depth=6,embed_dim={width},num_heads={heads}")
        assert network(texts(*TEXTS, vocab_size=SIZE)).isfinite().all()
        blocks = architecture.blocks(network)
        assert len(blocks) == 6
    if model == "SWS":  # cyclic: layers 0 and 1 are the first stage's
        first, second, third = (dict(blocks[layer].named_parameters()) for layer in (0, 1, 2))
        assert all(torch.equal(first[part], second[part]) for part in first)
        assert not all(torch.equal(first[part], third[part]) for part in first)


@pytest.mark.parametrize(
    ("name", "kind"), [pytest.param("gpt2", "text", marks=pytest.mark.slow), ("bert", "text"), ("qwen3", "language")]
)
def test_a_nested_learngene_of_texts_holds_the_ancestor_and_every_smaller_network(fit, tmp_path, name, kind):
    path, architecture, network = write_ancestor(name, kind, tmp_path)
    file = fit(kind, "Nested", f"--model.ancestor={path}", "--model.least_depth=1")
    learngene = Learngene.load(file)
    assert learngene.content == "slices"
    spec = f"depth=4,embed_dim={architecture.embed_dim},num_heads={architecture.num_heads}"
    inputs = texts(*TEXTS, vocab_size=SIZE)
    torch.testing.assert_close(descendant(file, spec)(inputs), network(inputs), rtol=1e-4, atol=1e-5)
    small = descendant(file, "depth=2,embed_dim=16,num_heads=2")
    assert small(inputs).shape == network(inputs).shape
    assert sum(p.numel() for p in small.parameters()) < architecture.count_parameters() / 2


@pytest.mark.parametrize(
    ("name", "kind", "of_ancestor"),
    [
        ("llama", "text", "text"),
        ("gpt2", "text", "text"),
        ("llama", "text", "language"),
        ("qwen3", "language", "language"),
    ],
)
def test_plain_transformers_read_the_networks_of_a_family(fit, text_root, tmp_path, name, kind, of_ancestor):
    path, _, _ = write_ancestor(name, of_ancestor, tmp_path)
    whole, size, inputs = parsed(name, kind), "depth=2,embed_dim=16", texts(*TEXTS, vocab_size=SIZE)
    run = fit(kind, "Family", f"--model.ancestor={path}", f'--model.sizes=["{size}"]').parent
    family = api.load_family(run)
    assert len(family.front) > 4
    assert all(parse_size(text, whole).head_width == whole.head_width for text in family.front)
    known = whole.count_parameters()
    for arch, parameters in ((size, parse_size(size, whole).count_parameters()), ("ancestor", known)):
        out, own = tmp_path / str(parameters), family[arch]
        ok(lgx("export", run, "--arch", arch, "--out", out))
        plain = AUTO[kind].from_pretrained(out).eval()
        torch.testing.assert_close(plain(inputs[:, 0]).logits, own(inputs), rtol=1e-4, atol=1e-5)
        assert kind == "language" or plain.config.id2label == own.config.id2label == {0: "negative", 1: "positive"}
        assert plain.num_parameters() == parameters
    best = (min if kind == "language" else max)(family.front.values())  # perplexity and accuracy
    done = ok(lgx("export", run, "--params", known, "--latency", "9s", "--out", tmp_path / "chosen"))
    assert family.front[re.search(r"--arch (\S+)", done.out)[1]] == best
    if kind == "language":
        return
    ok(lgx("predict", "--config", run / "config.yaml", f"--ckpt_path={run}/checkpoints/last.ckpt"))
    (tmp_path / "a.txt").write_text("the sentence\na word")
    ok(lgx("predict", tmp_path / "a.txt", "--model", run, "--arch", size, "--out", tmp_path / "p.csv"))
    tokenizer = load_tokenizer(text_root / "gpt2_vocab")
    logits = family[size](padded(tokenizer, [dict(tokenizer(text)) for text in ("the sentence", "a word")]))
    found = [float(row["probability"]) for row in csv.DictReader((tmp_path / "p.csv").open())]
    assert found == pytest.approx(logits.softmax(1).amax(1).tolist(), abs=1e-5)


@pytest.mark.parametrize("name", ARCHS)
def test_sizes_of_texts_are_stored_exactly(name):
    whole = parsed(name, "text")
    sizes = size_grid(whole, 1, whole.head_width)
    assert len(sizes) > 4
    for size in sizes:
        assert parse_size(slice_text(size), whole) == size


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_a_slice_is_a_selection_of_layers_groups_heads_and_neurons(name, kind, tmp_path):
    _, architecture, network = write_ancestor(name, kind, tmp_path)
    inputs = texts(*TEXTS, vocab_size=SIZE)
    importance = on_inputs(network, architecture, inputs)
    tensors, order = ordered(architecture.tensors(network), architecture, importance)
    assert not torch.equal(order, torch.arange(architecture.embed_dim))
    layers = [0, 3, 1, 2]
    whole = sliced(tensors, architecture, architecture, layers)
    empty = slice_network(architecture, torch.device("cpu"), torch.float32).eval()
    found = functional_call(empty, whole, (inputs,), tie_weights=False)
    torch.testing.assert_close(found, network(inputs), rtol=1e-4, atol=1e-5)
    sizes = Sizes.within(architecture)
    size = sizes.network(3, sizes.widths()[-2], 1.0)
    cut = sliced(tensors, architecture, size, layers)
    expected = size.build("meta").state_dict()
    assert {name: tensor.shape for name, tensor in cut.items()} == {n: t.shape for n, t in expected.items()}
    for name, wanted in naive_slice(tensors, architecture, size, (0, 1, 3)).items():
        torch.testing.assert_close(cut[name], wanted, msg=name)


def test_queries_beside_fewer_keys_and_values_cannot_be_sliced():
    architecture = parsed("phi3", "language").replace(heads_per_group=2)
    with pytest.raises(UserError, match="has queries beside keys and values that they share, which cannot be sliced"):
        ordered({}, architecture, None)


def naive_slice(
    tensors: dict[str, torch.Tensor], whole: Architecture, size: Architecture, layers: tuple[int, ...]
) -> dict[str, torch.Tensor]:
    """Query, output and MLP weights of one layer after another, cut by hand."""
    width, head = size.embed_dim, whole.head_width
    heads, groups = size.num_heads * head, size.num_heads // getattr(size, "heads_per_group", 1) * head
    neurons, more = round(width * size.mlp_ratio), sqrt(whole.embed_dim / width)
    of_neurons, of_heads = sqrt(whole.embed_dim * whole.mlp_ratio / neurons), sqrt(whole.num_heads / size.num_heads)
    found = {}
    for layer, source in enumerate(layers):
        for name, tensor in tensors.items():
            own = f"{whole.layers}{source}."
            if not name.startswith(own):
                continue
            short = name.removeprefix(own)
            cuts = {
                "self_attn.q_proj.weight": (heads, width, more),
                "self_attn.k_proj.weight": (groups, width, more),
                "self_attn.o_proj.weight": (width, heads, of_heads),
                "mlp.down_proj.weight": (width, neurons, of_neurons),
                "attn.c_proj.weight": (heads, width, of_heads),  # of a transposed layer
                "mlp.c_fc.weight": (width, neurons, more),
                "attention.self.key.weight": (heads, width, more),
                "attention.output.dense.weight": (width, heads, of_heads),
                "intermediate.dense.weight": (neurons, width, more),
                "mlp.dense_4h_to_h.weight": (width, neurons, of_neurons),
            }
            target = f"{whole.layers}{layer}.{short}"
            if short in cuts:
                rows, columns, factor = cuts[short]
                found[target] = tensor[:rows, :columns] * factor
            elif short == "attn.c_attn.weight":
                found[target] = torch.cat([part[:width, :heads] for part in tensor.chunk(3, dim=1)], dim=1) * more
            elif short == "attention.query_key_value.weight":  # a head's query, key and value side by side
                found[target] = tensor[: 3 * heads, :width] * more
    assert len(found) >= 2 * len(layers)
    return found
