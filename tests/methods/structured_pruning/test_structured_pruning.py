"""Structured pruning: what is small is removed, everywhere alike."""

import math
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.methods.structured_pruning.initializer import StructuredPruning, share_to_remove
from tests.support.extras import need_torch_pruning

WIDE = ViTArchitecture(4, 24, 3, patch_size=4, img_size=16, num_classes=5, mlp_ratio=2.0)
NARROW = WIDE.replace(depth=4, embed_dim=16, num_heads=2)
STREAM = [i for i in range(24) if i % 3]
NEURONS = [i for i in range(48) if i % 3]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A network in which a third of the dimensions, of the neurons, and head 1 are tiny."""
    torch.manual_seed(0)
    state = {name: torch.randn_like(tensor) for name, tensor in WIDE.build().state_dict().items()}
    small, silent = [i for i in range(24) if i not in STREAM], [i for i in range(48) if i not in NEURONS]
    for name, tensor in state.items():
        for dim, size in enumerate(tensor.shape):
            if size == 24 and not (name.endswith("attn.proj.weight") and dim == 1):
                tensor.movedim(dim, 0)[small] *= 1e-3
            if size == 48:
                tensor.movedim(dim, 0)[silent] *= 1e-3
        if ".qkv." in name:
            tensor.reshape(3, 3, 8, -1)[:, 1] *= 1e-3
        if name.endswith("attn.proj.weight"):
            tensor[:, 8:16] *= 1e-3
    path = tmp_path_factory.mktemp("pruned") / f"final{SUFFIX}"
    Learngene("ancestor", WIDE, state, task={"name": "shapes", "mean": [0.5] * 3, "std": [0.5] * 3}).save(path)
    return str(path), state


def test_the_smallest_dimensions_heads_and_neurons_are_removed(source):
    need_torch_pruning()
    path, state = source
    pruned = initialize(NARROW, StructuredPruning(path)).model.state_dict()
    heads = [*range(8), *range(16, 24)]
    fused = [part * 24 + i for part in range(3) for i in heads]
    assert_close(pruned["cls_token"], state["cls_token"][..., STREAM])
    assert_close(pruned["head.weight"], state["head.weight"][:, STREAM])
    for layer in range(4):
        own = f"blocks.{layer}."
        assert_close(pruned[f"{own}attn.qkv.weight"], state[f"{own}attn.qkv.weight"][fused][:, STREAM])
        assert_close(pruned[f"{own}attn.proj.weight"], state[f"{own}attn.proj.weight"][STREAM][:, heads])
        assert_close(pruned[f"{own}mlp.fc1.weight"], state[f"{own}mlp.fc1.weight"][NEURONS][:, STREAM])
        assert_close(pruned[f"{own}mlp.fc2.bias"], state[f"{own}mlp.fc2.bias"][STREAM])


def test_layers_of_a_shallower_descendant_are_evenly_spaced_and_the_mlp_alone_can_be_pruned(source):
    need_torch_pruning()
    path, state = source
    kept = initialize(WIDE.replace(depth=2), StructuredPruning(path)).model.state_dict()
    assert_close(kept["blocks.1.attn.qkv.weight"], state["blocks.2.attn.qkv.weight"])
    assert_close(kept["blocks.0.attn.qkv.weight"], state["blocks.0.attn.qkv.weight"])
    pruned = initialize(WIDE.replace(mlp_ratio=32 / 24), StructuredPruning(path)).model.state_dict()
    assert_close(pruned["blocks.0.mlp.fc1.bias"], state["blocks.0.mlp.fc1.bias"][NEURONS])
    assert_close(pruned["blocks.0.norm1.weight"], state["blocks.0.norm1.weight"])


def test_without_the_library_one_sentence_says_what_to_install(source, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_pruning", None)
    with pytest.raises(UserError, match=r"pip install 'lgx\[pruning\]'"):
        initialize(NARROW, StructuredPruning(source[0]))


@given(st.integers(1, 4096), st.integers(1, 4096))
def test_shares_leave_exactly_what_is_wanted_however_they_are_rounded(kept, more):
    count = kept + more - 1
    share = share_to_remove(kept, count)
    assert int(count * (1 - share)) == kept
    assert math.ceil(share * count) == count - kept
