"""Selection of a part of the width."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lgx.architectures import ViTArchitecture
from lgx.architectures.axes import Axis
from lgx.errors import UserError
from lgx.initialization.width import evenly, heads_whole, narrow

WIDE = ViTArchitecture(2, 24, 3, patch_size=8, img_size=16, num_classes=3, mlp_ratio=2.0)


@given(st.integers(1, 3), st.sampled_from([2, 3, 4, 8]), st.sampled_from([1.0, 1.5, 2.0]), st.booleans())
def test_every_parameter_gets_the_width_of_the_target(heads, width, ratio, whole):
    target = WIDE.replace(embed_dim=heads * width, num_heads=heads, mlp_ratio=ratio)
    shapes = {name: tensor.shape for name, tensor in target.build("meta").state_dict().items()}
    if int(target.embed_dim * ratio) <= 48:
        found = narrow(WIDE.build().state_dict(), WIDE, target, heads_whole if whole else evenly)
        assert {name: tensor.shape for name, tensor in found.items()} == shapes


def test_the_same_heads_neurons_and_dimensions_are_kept_in_every_parameter():
    torch.manual_seed(0)
    target = WIDE.replace(embed_dim=16, num_heads=2, mlp_ratio=1.5)
    wide, small = WIDE.build().eval(), target.build().eval()
    small.load_state_dict(narrow(wide.state_dict(), WIDE, target, heads_whole))
    qkv = [*range(8), *range(16, 24)]  # heads 0 and 2 of 3
    rows = [round(i * 23 / 15) for i in range(16)]
    block, kept = wide.blocks[1], small.blocks[1]
    for part in range(3):
        theirs = block.attn.qkv.weight[part * 24 : (part + 1) * 24][qkv][:, rows]
        assert torch.equal(kept.attn.qkv.weight[part * 16 : (part + 1) * 16], theirs)
    assert torch.equal(kept.attn.proj.weight, block.attn.proj.weight[rows][:, qkv])
    assert torch.equal(kept.mlp.fc2.weight, block.mlp.fc2.weight[rows][:, ::2])


def test_heads_of_another_width_keep_the_same_elements_of_each_head():
    source, target = Axis("heads", 12, 1, "blocks.0.attn", 3), Axis("heads", 4, 1, "blocks.0.attn", 2)
    assert heads_whole(source, target) == [0, 2, 8, 10]


def test_what_is_wider_is_refused():
    state = WIDE.build().state_dict()
    with pytest.raises(UserError, match="must not be wider, but has 48 of embed_dim, the source 24"):
        narrow(state, WIDE, WIDE.replace(embed_dim=48), evenly)
    with pytest.raises(UserError, match="hidden neurons"):
        narrow(state, WIDE, WIDE.replace(mlp_ratio=4.0), evenly)
    with pytest.raises(UserError, match="must not have more heads"):
        narrow(state, WIDE, WIDE.replace(embed_dim=20, num_heads=5), heads_whole)
