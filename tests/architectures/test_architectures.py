"""Counts agree with the papers; names, specifications and sets are reproducible; mistakes are explained."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from experiments.analyze.module_costs import cost_in_modules
from experiments.reproduce.paper import load_table
from lgx.architectures import (
    NAMES,
    HFArchitecture,
    ViTArchitecture,
    architecture_set,
    name_of,
    parse_any_architecture,
    parse_architecture,
)
from lgx.architectures.building import building_on
from lgx.architectures.cost import cost_of
from lgx.errors import UserError
from tests.support.fake_masks import SMALL
from tests.support.families import EACH, tiny

# SWS, Table 5: auxiliary nets by stages, parameters (M), MACs (G).
AUX_B = [
    ("2-2-2-2-2-2", 44.0, 17.5), ("1-4-1-1-4-1", 44.0, 17.5), ("1-5-1-4-1", 37.0, 17.5), ("4-1-6-1-4", 37.0, 23.3),
    ("4-1-5-2-3", 37.0, 21.8), ("3-3-4-3-3", 37.0, 23.3),
]  # fmt: skip


@pytest.mark.parametrize(("stages", "parameters", "macs"), AUX_B)
def test_auxiliary_nets_have_the_sizes_of_sws_table_5(stages, parameters, macs):
    architecture = parse_architecture(f"12-Base,stages={stages}")
    assert architecture.count_parameters() / 1e6 == pytest.approx(parameters, abs=0.1)
    assert architecture.count_macs() / 1e9 == pytest.approx(macs, rel=0.01)


valid = st.builds(
    lambda depth, heads, width, patch, grid, chans: ViTArchitecture(
        depth, heads * width, heads, patch_size=patch, img_size=patch * grid, in_chans=chans
    ),
    st.integers(1, 15), st.integers(1, 12), st.integers(1, 64), st.integers(1, 16), st.integers(1, 14),
    st.sampled_from([1, 3]),
)  # fmt: skip


@given(valid)
def test_spec_and_name_round_trip(architecture):
    assert parse_architecture(architecture.spec()) == architecture
    assert parse_architecture(name_of(architecture)) == architecture
    assert ViTArchitecture.from_dict(architecture.to_dict()) == architecture


def test_shared_stages_compute_what_repeated_layers_compute_and_gather_the_gradients_of_all_uses():
    torch.manual_seed(0)
    plain = ViTArchitecture(3, 16, 2, patch_size=4, img_size=8, num_classes=3)
    models = [architecture.build().double().eval() for architecture in (plain.replace(stages=(1, 2)), plain)]
    models[1].load_state_dict(models[0].state_dict())
    image = torch.randn(2, 3, 8, 8, dtype=torch.double)
    logits = [model(image) for model in models]
    assert torch.equal(*logits)
    for one in logits:
        one.logsumexp(-1).sum().backward()
    shared, repeated = ([block.mlp.fc1.weight.grad for block in model.blocks] for model in models)
    torch.testing.assert_close(shared[1], repeated[1] + repeated[2])
    assert plain.replace(stages=(1, 2)).count_parameters() < plain.count_parameters()


@pytest.mark.parametrize(
    ("name", "deepest", "widths", "base"),
    [
        ("ViTs-1K", 9, (128, 512), ViTArchitecture()),
        ("ViTs+-1K", 12, (192, 768), ViTArchitecture()),
        ("GPTs-1K", 9, (72, 256), HFArchitecture()),
        ("LLAMAs-1K", 9, (80, 256), HFArchitecture(config='{"model_type":"llama"}')),
    ],
)
def test_sets_are_reproducible_prefixes_within_their_ranges(name, deepest, widths, base):
    few, many = architecture_set(name, 10, base), architecture_set(name, 300, base)
    assert many[:10] == few
    assert {a.depth for a in many} == set(range(3, deepest + 1))
    assert (min(a.embed_dim for a in many), max(a.embed_dim for a in many)) == widths
    assert all(a.embed_dim % a.num_heads == 0 for a in many)
    if name == "ViTs-1K":  # LoGAH's widths shrink with depth, which keeps all near 10 M parameters
        assert all(a.embed_dim <= 256 for a in many if a.depth >= 6)
        assert max(a.count_parameters() for a in set(many)) < 10.5e6
    if base.reads_text:
        step = 16 if name == "LLAMAs-1K" else 8  # rotary positions need heads of an even width
        assert all(a.num_heads == 8 and a.embed_dim % step == 0 for a in many)
        assert all(a.embed_dim >= 176 for a in many if a.depth == 3)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("6-Smal", ("6-Smal", "6-Small")),
        ("depth=6,width=4", ("width", "embed_dim")),
        ("depth=six", ("depth", "six")),
        ("depth=4,embed_dim=16,num_heads=3", ("num_heads 3", "16")),
        ("6-Small,img_size=30", ("patch_size 16", "30")),
        ("depth=12,stages=1-2-3", ("stages", "depth 12")),
        ("3-GPT", ("3-GPT", "3-GPT2")),
    ],
)
def test_mistakes_name_the_key_and_what_would_be_right(text, names):
    with pytest.raises(UserError) as caught:
        parse_any_architecture(text)
    assert all(name in str(caught.value) for name in names)


def test_the_decoder_scores_each_patch_and_upsamples():
    small = parse_architecture(SMALL, num_classes=5)
    pixels = small.replace(kind="segmentation")
    torch.manual_seed(0)
    vit, decoder = small.build().eval(), pixels.build().eval()
    torch.nn.init.normal_(vit.head.weight)
    decoder.load_state_dict(vit.state_dict())
    images = torch.randn(2, 3, 24, 24)
    logits = decoder(images)
    assert logits.shape == (2, 5, 24, 24)
    tokens = vit.forward_features(images)[:, 1:]
    scores = torch.stack([vit.head(tokens[:, i]) for i in range(36)], dim=-1).view(2, 5, 6, 6)
    torch.testing.assert_close(logits, F.interpolate(scores, scale_factor=4, mode="bilinear"))
    torch.testing.assert_close(decoder.forward_head(decoder.forward_features(images), pre_logits=True), tokens.mean(1))
    assert (pixels.spec(), name_of(pixels)) == (small.spec(), name_of(small))
    six = ViTArchitecture(6, 384, 6, kind="segmentation")
    assert name_of(six) == "6-Small"
    old = {key: value for key, value in small.to_dict().items() if key != "kind"}
    assert ViTArchitecture.from_dict(old) == small
    shared = pixels.replace(depth=2, stages=(2,)).build()
    assert shared.blocks[0] is shared.blocks[1]
    with pytest.raises(UserError, match="kind is 'text', expected classification or segmentation or multilabel"):
        small.replace(kind="text")


def printed(table: str, metric: str) -> dict[str, float]:
    """A paper's numbers of one metric, by architecture."""
    rows = load_table(table).rows
    return {row.architecture: row.value for row in rows if row.metric == metric and row.value is not None}


def test_every_row_of_lsamds_table_2_is_counted_as_printed():
    parameters, flops = printed("lsamd/table2", "params"), printed("lsamd/table2", "flops")
    assert list(parameters) == list(flops) == [f"Des-B-{depth}" for depth in range(5, 16)]
    for name in parameters:
        cost = cost_in_modules(NAMES[name].replace(num_classes=100))
        assert round(cost.parameters / 1e6, 2) == parameters[name]
        assert round(cost.macs / 1e9, 2) == flops[name]


@pytest.mark.parametrize(
    ("table", "classes"),
    [("table1", 1000), pytest.param("table2", 100, marks=pytest.mark.slow), ("table3", 1000), ("table4", 1000)],
)
def test_the_tables_of_sws_agree_within_rounding(table, classes):
    parameters = printed(f"sws/{table}", "params")
    assert len(parameters) >= 5
    for name, value in parameters.items():
        assert cost_of(NAMES[name].replace(num_classes=classes)).parameters / 1e6 == pytest.approx(value, abs=0.1)
    for name, value in printed(f"sws/{table}", "flops").items():
        assert cost_of(NAMES[name]).macs / 1e9 == pytest.approx(value, rel=0.01)


def test_counting_conventions_differ_in_positions_attention_and_norms_and_count_shared_layers_once():
    base = NAMES["12-Base"]
    whole, modules = cost_of(base), cost_in_modules(base)
    assert whole.parameters - modules.parameters == 198 * 768  # 197 positions and the class token
    attention, norms = 12 * 2 * 197 * 197 * 768, 25 * 4 * 197 * 768
    assert whole.macs - modules.macs == attention - norms
    shared, twice = NAMES["Aux-B"], NAMES["Des-B-16"]
    assert cost_in_modules(shared).macs == cost_in_modules(twice).macs
    assert cost_in_modules(shared).parameters == cost_in_modules(NAMES["Des-B-5"]).parameters


@pytest.mark.parametrize("family", EACH)
def test_shapes_are_those_of_the_network_with_values(family: str) -> None:
    architecture = tiny(family)
    meta, real = architecture.build("meta").state_dict(), architecture.build().state_dict()
    assert {name: (tensor.shape, tensor.dtype) for name, tensor in meta.items()} == {
        name: (tensor.shape, tensor.dtype) for name, tensor in real.items()
    }


def test_values_of_real_tensors_are_computed_while_networks_are_built_on_meta() -> None:
    real = torch.zeros(3)
    with building_on("meta"):
        nn.init.ones_(real)
        real.add_(1)
        layer = nn.Linear(2, 2)
    assert real.tolist() == [2.0, 2.0, 2.0]
    assert layer.weight.is_meta
    assert layer.weight.requires_grad
