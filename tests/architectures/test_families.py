"""Families of ViTs: described from timm's models, built again, counted, exported and read."""

from functools import partial

import pytest
import timm
import torch
from timm.layers import SwiGLUPacked
from timm.models.eva import Eva
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from lgx.architectures import ViTArchitecture, architecture_from_dict, parse_architecture, parse_for
from lgx.architectures.axes import Axis, read_axes
from lgx.architectures.describing import describe_timm_model, describe_vit
from lgx.architectures.forms import same_form
from lgx.architectures.parameter_axes import axes_of
from lgx.artifacts.export import write_descendant
from lgx.artifacts.pretrained import load_pretrained
from lgx.errors import UserError
from lgx.hypernet.graph import computational_graph
from lgx.initialization import initialize
from lgx.methods.baselines.pretrained import Pretrained
from tests.support.families import EACH, tiny


def _random(architecture: ViTArchitecture) -> nn.Module:
    """A network all of whose parameters matter: none is 0 or 1."""
    torch.manual_seed(0)
    model = architecture.build().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def _images(size: int = 16) -> Tensor:
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("family", EACH)
def test_an_exported_network_gives_the_same_logits_in_plain_timm_and_when_it_is_read_again(family, tmp_path):
    architecture = tiny(family)
    assert parse_architecture(architecture.spec(), num_classes=5) == architecture
    assert architecture_from_dict(architecture.to_dict()) == architecture
    model = _random(architecture)
    write_descendant(tmp_path / "model", model, architecture, (0.5,) * 3, (0.5,) * 3)
    plain = timm.create_model(f"local-dir:{tmp_path / 'model'}", pretrained=True).eval()
    network = load_pretrained(str(tmp_path / "model"))
    assert network.architecture == architecture, network.unknown_part
    with torch.no_grad():
        expected = model(_images())
        torch.testing.assert_close(plain(_images()), expected, atol=1e-6, rtol=0)
        torch.testing.assert_close(network.model(_images()), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("family", [each for each in EACH if each != "deit_distilled"])
def test_a_segmentation_network_takes_the_weights_of_a_classifier_but_its_head_and_pooling(family, tmp_path):
    source = tiny(family)
    write_descendant(tmp_path / "source", _random(source), source, (0.5,) * 3, (0.5,) * 3)
    architecture = tiny(family, kind="segmentation")
    start = initialize(architecture, Pretrained(str(tmp_path / "source")), head="new")
    assert all(name.startswith("head.") for name in start.random), start.random
    model = start.model.eval()
    logits = model(_images())
    assert logits.shape == (2, 5, 16, 16)
    write_descendant(tmp_path / "out", model, architecture)
    read = load_pretrained(str(tmp_path / "out"))
    assert read.architecture == architecture, read.unknown_part
    torch.testing.assert_close(read.model(_images()), logits, atol=1e-6, rtol=0)


@pytest.mark.parametrize("family", EACH)
def test_macs_and_parameters_are_those_of_all_products(family):
    architecture = tiny(family, depth=4)
    model = architecture.build().eval()
    products: list[int] = []

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        products.append(output[0].numel() * module.get_parameter("weight")[0].numel())

    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            module.register_forward_hook(count)
    model(_images()[:1])
    tokens = 4 + architecture.num_prefix_tokens
    attention = 2 * tokens**2 * architecture.embed_dim * architecture.depth
    if family in ("siglip", "perception_encoder"):  # one more query, the pool's, reads all tokens
        attention += 2 * tokens * architecture.embed_dim
    if family == "eva":  # its projection of queries, keys and values is no call of the module
        attention += architecture.depth * tokens * 3 * architecture.embed_dim**2
    assert architecture.count_macs() == sum(products) + attention
    assert architecture.count_parameters() == sum(parameter.numel() for parameter in model.parameters())


def test_the_plain_vit_is_found_behind_other_names_and_a_specification_starts_from_a_model_of_timm():
    for name in ("deit_small_patch16_224", "vit_small_patch16_224", "vit_base_patch16_224.mae"):
        described = describe_timm_model(name).architecture
        assert described.is_plain, name
    assert parse_architecture("timm:deit_tiny_patch16_224,depth=2") == ViTArchitecture(depth=2)
    text = "timm:vit_small_patch14_reg4_dinov2,depth=2,embed_dim=64,num_heads=1,img_size=28"
    architecture = parse_architecture(text, num_classes=3)
    assert architecture.form == "vit_small_patch14_reg4_dinov2"
    assert (architecture.depth, architecture.patch_size, architecture.num_classes) == (2, 14, 3)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("vit_small_patch14_dinov2", "vit_base_patch14_dinov2", True),
        ("vit_small_patch14_dinov2", "vit_small_patch14_reg4_dinov2", False),
        ("vit_small_patch14_dinov2", "", False),
        ("vit_base_patch16_clip_224", "vit_base_patch16_clip_quickgelu_224", False),
    ],
)
def test_sizes_of_one_form_have_the_same_form_and_others_do_not(one, other, same):
    assert same_form(one, other) == same


@pytest.mark.parametrize(
    ("model", "part"),
    [
        ("vit_tiny_r_s16_p8_224", "patch_embed is a HybridEmbed"),
        ("beit_base_patch16_224", "the network is a Beit"),
        ("vit_small_patch16_rope_mixed_224", "RotaryEmbeddingMixed"),
        ("vit_pwee_patch16_reg1_gap_256", "ParallelScalingBlock"),
        ("resnet18", "the network is a ResNet"),
        ("vit_huge_patch99_of_nobody", "timm does not have this model"),
        ({"act_layer": nn.ReLU}, "blocks.0.mlp.act is a ReLU"),
        ({"norm_layer": nn.BatchNorm1d}, "norm1 is a BatchNorm1d"),
    ],
)
def test_what_no_form_expresses_is_named(model, part):
    if isinstance(model, dict):
        described = describe_vit(timm.create_model("vit_tiny_patch16_224", depth=1, **model))
    else:
        described = describe_timm_model(model)
        with pytest.raises(UserError, match=part):
            parse_architecture(f"timm:{model},depth=2")
    assert described.architecture is None
    assert part in described.reason


@pytest.mark.parametrize(
    ("form", "wrong"),
    [
        ("resnet18", "form must be the name of a ViT of timm"),
        (3, "form is 3, expected a text"),
    ],
)
def test_a_wrong_form_is_refused_in_a_sentence(form, wrong):
    with pytest.raises(UserError, match=wrong):
        tiny("plain", form=form)
    with pytest.raises(UserError, match="distilled head"):
        tiny("deit_distilled", kind="segmentation")
    with pytest.raises(UserError, match="hypernetworks predict plain ViTs"):
        computational_graph(tiny("dinov2"))


def test_a_descendant_takes_the_form_of_its_source_where_its_text_names_none():
    source = tiny("eva02", mlp_ratio=3.0)
    text = "depth=1,embed_dim=32,num_heads=2"
    given = parse_for(text, "classification", 7, source)
    assert isinstance(given, ViTArchitecture)
    assert (given.form, given.mlp_ratio, given.num_classes) == (source.form, 3.0, 7)
    text = "timm:vit_small_patch14_dinov2"
    named = parse_for(text, None, source=source)
    assert isinstance(named, ViTArchitecture)
    assert named.form == "vit_small_patch14_dinov2"


def test_a_source_of_another_form_is_refused_with_what_to_write(tmp_path):
    source = tiny("dinov2")
    write_descendant(tmp_path / "source", _random(source), source)
    with pytest.raises(UserError, match="write form=vit_small_patch14_dinov2 in the architecture"):
        initialize(tiny("plain"), Pretrained(str(tmp_path / "source")))


PLAIN = ViTArchitecture(3, 24, 3, patch_size=8, img_size=24, num_classes=24, mlp_ratio=1.0)
STREAM = Axis("embed", 24)


def heads(layer, parts=1):
    return Axis("heads", 24, parts, f"blocks.{layer}.attn", 3)


def test_sizes_that_are_equal_by_chance_are_told_apart():
    hidden = Axis("hidden", 24, owner="blocks.2.mlp")
    assert axes_of(PLAIN, "blocks.2.mlp.fc1.weight") == (hidden, STREAM)
    assert axes_of(PLAIN, "blocks.2.mlp.fc2.weight") == (STREAM, hidden)
    assert axes_of(PLAIN, "blocks.1.attn.qkv.weight") == (heads(1, 3), STREAM)
    assert axes_of(PLAIN, "blocks.1.attn.proj.weight") == (STREAM, heads(1))
    assert axes_of(PLAIN, "head.weight") == (None, STREAM)
    assert axes_of(PLAIN, "pos_embed") == (None, None, STREAM)
    assert axes_of(PLAIN, "patch_embed.proj.weight") == (STREAM, None, None, None)


def test_shared_stages_and_an_unknown_parameter():
    shared = PLAIN.replace(stages=(2, 1))
    assert axes_of(shared, "blocks.1.attn.proj.bias") == (STREAM,)
    with pytest.raises(UserError, match="does not have this parameter"):
        axes_of(PLAIN, "blocks.0.attn.qkv.scale")


def read(kind, **options):
    def build(embed_dim, num_heads, mlp_ratio):
        size = {"embed_dim": embed_dim, "num_heads": num_heads, "mlp_ratio": mlp_ratio, "depth": 1}
        return kind(img_size=32, patch_size=16, num_classes=5, device="meta", **size, **options)

    found = read_axes(build, 24, 3, 4.0)
    assert {name: len(axes) for name, axes in found.items()} == {
        name: tensor.ndim for name, tensor in build(24, 3, 4.0).state_dict().items()
    }
    return found


def test_a_gated_mlp_has_two_values_for_each_neuron():
    axes = read(VisionTransformer, mlp_layer=SwiGLUPacked, init_values=1.0)
    assert axes["blocks.0.mlp.fc1.weight"] == (Axis("hidden", 48, 2, "blocks.0.mlp"), STREAM)
    assert axes["blocks.0.mlp.fc2.weight"] == (STREAM, Axis("hidden", 48, owner="blocks.0.mlp"))
    assert axes["blocks.0.ls1.gamma"] == (STREAM,)


def test_normalized_queries_and_attention_pooling():
    axes = read(VisionTransformer, qk_norm=True, global_pool="map", class_token=False, reg_tokens=2)
    pool = Axis("heads", 24, 1, "attn_pool", 3)
    assert axes["blocks.0.attn.q_norm.weight"] == (Axis("head", 8, owner="blocks.0.attn"),)
    assert axes["attn_pool.kv.weight"] == (Axis("heads", 24, 2, "attn_pool", 3), STREAM)
    assert axes["attn_pool.q.weight"] == (pool, STREAM)
    assert axes["attn_pool.proj.weight"] == (STREAM, pool)
    assert axes["attn_pool.latent"] == (None, None, STREAM)
    assert axes["attn_pool.norm.weight"] == (STREAM,)
    assert axes["attn_pool.mlp.fc1.weight"] == (Axis("hidden", 96, owner="attn_pool.mlp"), STREAM)
    assert axes["reg_token"] == (None, None, STREAM)


def test_an_mlp_may_round_its_neurons_up_or_have_a_ratio_of_its_own():
    pooled = {"global_pool": "map", "attn_pool_mlp_ratio": 2.0}
    axes = read(partial(Eva, use_rot_pos_emb=True), swiglu_mlp=True, swiglu_align_to=512, **pooled)
    assert axes["blocks.0.mlp.fc1_g.weight"] == (Axis("hidden", 512, owner="blocks.0.mlp"), STREAM)
    assert axes["attn_pool.mlp.fc2.weight"] == (STREAM, Axis("hidden", 48, owner="attn_pool.mlp"))


@pytest.mark.parametrize("fused", [True, False])
def test_evas_projections_are_fused_or_separate(fused):
    axes = read(
        partial(Eva, use_rot_pos_emb=True), qkv_fused=fused, swiglu_mlp=True, scale_mlp=True, scale_attn_inner=True
    )
    own = heads(0)
    hidden = Axis("hidden", 96, owner="blocks.0.mlp")
    if fused:
        assert axes["blocks.0.attn.qkv.weight"] == (heads(0, 3), STREAM)
        assert axes["blocks.0.attn.q_bias"] == axes["blocks.0.attn.v_bias"] == (own,)
    else:
        assert {axes[f"blocks.0.attn.{each}_proj.weight"] for each in "qkv"} == {(own, STREAM)}
    assert axes["blocks.0.attn.norm.weight"] == (own,)
    assert axes["blocks.0.mlp.fc1_g.weight"] == axes["blocks.0.mlp.fc1_x.weight"] == (hidden, STREAM)
    assert axes["blocks.0.mlp.norm.weight"] == (hidden,)
