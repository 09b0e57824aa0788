"""Hypernetworks predict GPT-2 classifiers, with dense or low-rank matrices."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from lgx.architectures import ViTArchitecture, parse_architecture
from lgx.errors import UserError
from lgx.hypernet import HypernetConfig, computational_graph
from lgx.hypernet.functional_forward import functional_forward_with_features
from lgx.hypernet.low_rank_tensor import LowRankTensor
from tests.support.gpt2 import GPT2, hypernet, texts
from tests.support.hypernet import VIT


def test_distances_follow_the_forward_flow():
    graph = computational_graph(GPT2)
    at = {node.parameter: n for n, node in enumerate(graph.nodes) if node.parameter}
    d = graph.lengths
    assert d[0, at["transformer.wte.weight"]] == 1
    assert d[0, at["transformer.wpe.weight"]] == 0
    assert d[at["transformer.wte.weight"], 3] == d[at["transformer.wpe.weight"], 3] == 1
    assert d[at["transformer.h.0.ln_1.weight"], at["transformer.h.0.attn.c_attn.weight"]] == 1
    assert d[at["transformer.h.0.attn.c_attn.bias"], at["transformer.h.0.attn.c_proj.weight"]] == 2  # through msa
    assert d[3, at["transformer.h.0.ln_2.weight"]] == 2  # over the skip connection
    assert d[at["transformer.ln_f.weight"], at["score.weight"]] == 1
    # A ViT has the same layers and the same nodes after them.
    vit = computational_graph(ViTArchitecture(2, 24, 3))
    assert (d[3:, 3:] == vit.lengths[4:-1, 4:-1]).all()


@pytest.mark.parametrize(("architecture", "inputs"), [(GPT2, texts(5, 9)), (VIT, torch.randn(2, 3, 16, 16))])
def test_a_low_rank_model_never_computes_a_dense_matrix(monkeypatch, architecture, inputs):
    net = hypernet(layout="aligned", vocab_size=101)
    parameters = net.predict(architecture, dense=False)
    formed = []
    matmul = torch.Tensor.__matmul__
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: formed.append((a.shape, b.shape)) or matmul(a, b))
    functional_forward_with_features(architecture, parameters, inputs)
    shapes = {tuple(p.shape) for p in parameters.values() if p.ndim == 2}
    assert not shapes & {(a[0], b[-1]) for a, b in formed if len(a) == len(b) == 2}


@pytest.mark.parametrize("decoder", ["low_rank", "conv"])
def test_conv1d_weights_are_transposed_linear_weights_at_gpt2s_scale(decoder):
    net = hypernet(decoder=decoder, layout="official").eval()
    graph = computational_graph(GPT2)
    straight = replace(
        graph, nodes=tuple(replace(n, form="linear", std=None) if n.form == "transposed" else n for n in graph.nodes)
    )
    with torch.no_grad():
        found, expected = (net.predict_graphs([each]).by_name(1)[0] for each in (graph, straight))
        factors = net.predict_graphs([graph], inputs=0).by_name(1)[0]
    for name, tensor in expected.items():
        is_conv1d = tensor.ndim == 2 and ".h." in name
        # A linear layer has He's scale, sqrt(2 / fan_in).
        wanted = tensor.T * (0.02 / (2 / tensor.shape[1]) ** 0.5) if is_conv1d else tensor
        torch.testing.assert_close(found[name], wanted)
        torch.testing.assert_close(F.relu(factors[name]), F.relu(found[name]))  # dense here


def test_attention_gain_scales_the_contributions_to_the_residual_stream_alone():
    with torch.no_grad():
        for architecture, multiplied, divided in (
            (GPT2, ("attn.c_proj.weight",), ("mlp.c_proj.weight", "wpe.weight")),
            (parse_architecture("depth=2,embed_dim=16,num_heads=2,patch_size=8,img_size=16", num_classes=3),
             ("attn.proj.weight",), ("mlp.fc2.weight", "pos_embed")),
        ):  # fmt: skip
            plain, scaled = hypernet(layout="aligned"), hypernet(layout="aligned", attention_gain=4.0)
            scaled.load_state_dict(plain.state_dict())
            one, other = plain.predict(architecture), scaled.predict(architecture)
            factored = scaled.predict(architecture, dense=False)
            for name, tensor in one.items():
                factor = 4 if name.endswith(multiplied) else 0.25 if name.endswith(divided) else 1
                torch.testing.assert_close(other[name], factor * tensor)
                product = factored[name].to_dense() if isinstance(factored[name], LowRankTensor) else factored[name]
                torch.testing.assert_close(product, other[name], rtol=1e-4, atol=1e-6)


def test_tokens_share_embeddings_only_where_they_are_tiled_and_their_number_is_checked():
    name, nets = "transformer.wte.weight", (hypernet(layout="aligned"), hypernet(layout="aligned", vocab_size=101))
    with torch.no_grad():
        tiled, own = (net.predict(GPT2)[name] for net in nets)
    assert torch.equal(tiled[:48], tiled[48:96])
    assert torch.pdist(own).min() > 0.002
    assert 0.01 < own.std() < 0.04
    with pytest.raises(UserError, match="has rows for 50 tokens, but the architecture has 101"):
        hypernet(layout="aligned", vocab_size=50).predict(GPT2)
    for options in ({"layout": "official"}, {"decoder": "conv", "layout": "aligned"}):
        with pytest.raises(UserError, match="vocab_size needs"):
            HypernetConfig(**options, vocab_size=10)
    with pytest.raises(UserError, match="vocab_size is 0, expected a whole number, 1 to"):
        HypernetConfig(layout="aligned", vocab_size=0)


def test_a_batch_of_graphs_gives_the_predictions_of_each_graph():
    net = hypernet(layout="aligned", vocab_size=101).eval()
    several = [GPT2, GPT2.replace(depth=3, embed_dim=40, num_heads=4), GPT2.replace(num_classes=2)]
    with torch.no_grad():
        predicted = net.predict_graphs([*map(computational_graph, several)]).by_name(3)
        for together, architecture in zip(predicted, several, strict=True):
            torch.testing.assert_close(together, net.predict(architecture), rtol=1e-4, atol=1e-5)
