"""The axes of a ViT's parameters: residual stream, heads, hidden neurons, fused parts."""

from functools import partial

import pytest
from timm.layers import SwiGLUPacked
from timm.models.eva import Eva
from timm.models.vision_transformer import VisionTransformer

from lgx.architectures import ViTArchitecture
from lgx.architectures.axes import Axis, axes_of, read_axes
from lgx.errors import UserError

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
    with pytest.raises(UserError, match="no such parameter"):
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
    axes = read(
        partial(Eva, use_rot_pos_emb=True),
        swiglu_mlp=True,
        swiglu_align_to=512,
        global_pool="map",
        attn_pool_mlp_ratio=2.0,
    )
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
