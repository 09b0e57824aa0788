"""Hypernetworks predict decoders like Llama, and language models."""

import json
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from lgx.components.losses import label_loss
from lgx.errors import UserError
from lgx.hypernet import computational_graph
from lgx.hypernet.functional_forward import functional_forward, meta_batch_loss
from tests.support.gpt2 import GPT2, LLAMA, hypernet, texts, transformers

TIED = json.dumps({"model_type": "llama", "tie_word_embeddings": True})
LANGUAGE_MODEL = LLAMA.replace(kind="language")


def of_type(name: str, **changes: object):
    """A tiny network of another type."""
    return replace(LLAMA, **changes, config=json.dumps({"model_type": name}))


QWEN = of_type("qwen3", embed_dim=48, head_dim=8)
"""Its heads are narrower than width / heads, and have norms."""
DECODERS = {
    "llama": LLAMA, "qwen2": of_type("qwen2"), "qwen3": QWEN, "starcoder2": of_type("starcoder2"),
    "language": LANGUAGE_MODEL, "tied": LANGUAGE_MODEL.replace(config=TIED), "gpt2": GPT2.replace(kind="language"),
    "classifier": GPT2,
}  # fmt: skip
"""Biases of queries, keys and values; norms of heads; LayerNorm and a plain MLP; heads of language models."""


@pytest.mark.parametrize("convention", ["msa", "plain"])
@pytest.mark.parametrize("name", DECODERS)
def test_the_graph_holds_every_parameter_once(name, convention):
    architecture = DECODERS[name]
    nodes = computational_graph(architecture, convention).nodes
    named = {n.parameter: n.shape[::-1] if n.form == "transposed" else n.shape for n in nodes if n.parameter}
    assert len(named) == sum(n.parameter is not None for n in nodes)
    for node in nodes:
        if node.op == "ln" and node.has_bias:
            named[node.parameter.removesuffix("weight") + "bias"] = node.shape
    assert named == {name: tuple(p.shape) for name, p in architecture.build("meta").named_parameters()}
    assert all(node.fused == (3 if "c_attn" in (node.parameter or "") else 1) for node in nodes)
    assert sum(n.op == "msa" for n in nodes) == (2 if convention == "msa" else 0)
    heads = [n.parameter for n in nodes if n.head]
    assert heads == {"tied": [], "gpt2": [], "language": ["lm_head.weight"]}.get(name, ["score.weight"])


def test_distances_follow_the_forward_flow_of_llama():
    graph = computational_graph(LLAMA)
    at = {(n.parameter or "").removeprefix("model.").removesuffix(".weight"): i for i, n in enumerate(graph.nodes)}
    ops = [node.op for node in graph.nodes]
    msa, first_sum = ops.index("msa"), ops.index("sum")
    edges = {(int(a), int(b)) for a, b in zip(*(graph.lengths == 1).nonzero(), strict=True)}
    layer = "layers.0."
    norm1, norm2 = at[f"{layer}input_layernorm"], at[f"{layer}post_attention_layernorm"]
    parts = [at[f"{layer}self_attn.{name}_proj"] for name in "qkv"]
    gate, up, down = (at[f"{layer}mlp.{name}_proj"] for name in ("gate", "up", "down"))
    output, second_sum = at[f"{layer}self_attn.o_proj"], down + 1
    expected = {(0, 1), (1, norm1), (1, first_sum), (msa, output), (output, first_sum), (first_sum, norm2)}
    expected |= {(norm1, part) for part in parts} | {(part, msa) for part in parts}
    expected |= {(norm2, gate), (norm2, up), (gate, down), (up, down), (down, second_sum), (first_sum, second_sum)}
    assert {(a, b) for a, b in edges if b <= second_sum} == expected
    assert len(graph.nodes) == 12 * 2 + 4
    assert graph.lengths[at["norm"], at["score"]] == 1


@pytest.mark.parametrize("decoder", ["low_rank", "conv"])
@pytest.mark.parametrize("name", DECODERS)
def test_a_predicted_network_equals_plain_transformers(name, decoder):
    architecture = DECODERS[name]
    kind = "CausalLM" if architecture.kind == "language" else "SequenceClassification"
    plain = getattr(transformers, f"AutoModelFor{kind}").from_config(architecture.configuration()).eval()
    with torch.no_grad():
        parameters = hypernet(decoder=decoder, num_classes=architecture.num_classes).eval().predict(architecture)
        missing, unexpected = plain.load_state_dict(parameters, strict=False)
        plain.tie_weights()
        assert not unexpected
        assert set(missing) <= {"lm_head.weight"} & architecture.tied_names().keys()
        ids = texts(9)
        wanted = plain(input_ids=ids[:, 0]).logits
        torch.testing.assert_close(functional_forward(architecture, parameters, ids), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["llama", "language", "tied"])
@pytest.mark.parametrize(
    ("decoder", "projection"), [*(("low_rank", each) for each in ("none", "predicted", "random")), ("conv", "none")]
)
def test_the_loss_of_predicted_decoders_falls(name, decoder, projection):
    """LoGAH, TAL with the ancestor's features in both ways, and GHN-3."""
    sizes = [DECODERS[name], DECODERS[name].replace(depth=3, embed_dim=48)]
    options = {"layout": "aligned", "vocab_size": 101} if decoder == "low_rank" else {}
    task = None if projection == "none" else torch.randn(4)
    net = hypernet(decoder=decoder, num_classes=sizes[0].num_classes, task_width=None if task is None else 4, **options)
    inputs, wanted = texts(9, 9, 9), torch.randn(3, 7).softmax(dim=1)
    targets = inputs[:, 0].roll(-1, 1) if sizes[0].kind == "language" else torch.tensor([0, 2, 1])
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)

    def loss(logits, features):
        guidance = F.kl_div(features.log_softmax(dim=1), wanted, reduction="batchmean") if projection != "none" else 0
        return label_loss(logits, targets) + guidance

    losses = []
    for step in range(30):
        one, norms = meta_batch_loss(net, sizes, inputs, loss, task, projection, width=7)
        optimizer.zero_grad()
        (one + 1e-5 * norms).backward()
        if step == 0:
            unused = {n.partition(".")[2] for n, p in net.named_parameters() if p.grad is None}
            assert all("head" in n for n in unused), unused
        optimizer.step()
        losses.append(one.item())
    assert torch.tensor(losses).isfinite().all()
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("name", ["bert", "gemma", "phi3", "mixtral"])
def test_other_networks_are_refused(name):
    """An encoder, norms that add one to their weight, fused projections, and experts."""
    with pytest.raises(UserError, match="hypernetworks predict ViTs, GPT-2s and decoders like Llama"):
        computational_graph(of_type(name, heads_per_group=1))
