"""The initializers of the baselines, compared with naive loops."""

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import Learngene
from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.methods import Pretrained, RandomStart, VanillaLG, WeightSelection
from lgx.methods.initializers import initializer_for
from tests.support.paths import DEIT_TINY
from tests.support.untrained_learngenes import BIG


def test_random_start_is_timms_own():
    torch.manual_seed(3)
    expected = BIG.build().state_dict()
    torch.manual_seed(3)
    start = initialize(BIG, RandomStart())
    assert start.taken == ()
    assert all(torch.equal(expected[k], v) for k, v in start.model.state_dict().items())


@pytest.mark.parametrize(("position", "places"), [("front", (0, 1)), ("back", (3, 4))])
def test_vanilla_lg_takes_only_the_last_layers(ancestor_file, position, places):
    start = initialize(BIG.replace(depth=5), VanillaLG(ancestor_file, layers=2, position=position))
    source = Learngene.load(ancestor_file).tensors
    for place, layer in zip(places, (4, 5), strict=True):
        assert torch.equal(start.model.blocks[place].mlp.fc2.bias, source[f"blocks.{layer}.mlp.fc2.bias"])
    assert {int(n.split(".")[1]) for n in start.taken} == set(places)
    assert "head.weight" in start.random


def naive_indices(source, target):
    """The rule of the paper's code, without torch."""
    if source % target == 0:
        return [i * (source // target) for i in range(target)]
    return [round(i * (source - 1) / (target - 1)) for i in range(target)]


def naive_selection(tensors, expected):
    """Each tensor of ``expected`` by the rule along every dimension; each third of qkv by itself."""
    selected = {}
    for name, shape in expected.items():
        parts = torch.chunk(tensors[name], 3) if ".qkv." in name else [tensors[name]]
        shape = (shape[0] // len(parts), *shape[1:])
        grids = [np.ix_(*map(naive_indices, part.shape, shape)) for part in parts]
        selected[name] = torch.from_numpy(np.concatenate([p.numpy()[g] for p, g in zip(parts, grids, strict=True)]))
    return selected


def test_weight_selection_matches_a_naive_loop(ancestor_file):
    small = BIG.replace(depth=4, embed_dim=16, num_heads=2)
    model = initialize(small, WeightSelection(ancestor_file)).model
    source = Learngene.load(ancestor_file).tensors
    rows = [0, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18, 20, 21, 23]  # 24 -> 16: i * 23 / 15, rounded
    hidden = naive_indices(96, 64)
    for layer in range(4):
        block = model.blocks[layer]
        fc1 = source[f"blocks.{layer}.mlp.fc1.weight"]
        for i in (0, 17, 63):
            for j in (0, 5, 15):
                assert block.mlp.fc1.weight[i, j] == fc1[hidden[i], rows[j]]
        qkv = source[f"blocks.{layer}.attn.qkv.weight"]
        for part in range(3):
            for i in (0, 7, 15):
                assert block.attn.qkv.weight[part * 16 + i, 3] == qkv[part * 24 + rows[i], rows[3]]
    assert_close(model.pos_embed[0, :, 2], source["pos_embed"][0, :, rows[2]])
    assert_close(model.head.weight[:, 9], source["head.weight"][:, rows[9]])


@pytest.mark.skipif(not DEIT_TINY.exists(), reason=f"needs the weights of DeiT-Tiny at {DEIT_TINY}")
@pytest.mark.parametrize(("width", "heads"), [(96, 3), (128, 2)])
def test_weight_selection_of_deit_tiny_is_the_rule_of_the_papers_code(width, heads, tmp_path):
    tensors = load_file(DEIT_TINY)
    deit = ViTArchitecture(12, 192, 3)
    Learngene("ancestor", deit, tensors).save(tmp_path / "deit.learngene.safetensors")
    start = initialize(deit.replace(depth=12, embed_dim=width, num_heads=heads), WeightSelection(
        str(tmp_path / "deit.learngene.safetensors")
    ))  # fmt: skip
    state = start.model.state_dict()
    expected = naive_selection(tensors, {name: tuple(tensor.shape) for name, tensor in state.items()})
    assert all(torch.equal(expected[name], tensor) for name, tensor in state.items())
    assert len(state) == 152
    if width == 96:
        assert torch.equal(state["norm.weight"], tensors["norm.weight"][::2])
    else:  # 191 / 127 = 1.50394: 0, 1.504, 3.008, 4.512, 6.016, 7.520 ... 189.496, 191
        taken = [0, 2, 3, 5, 6, 8, 189, 191]
        assert torch.equal(state["norm.weight"][[0, 1, 2, 3, 4, 5, 126, 127]], tensors["norm.weight"][taken])


def test_weight_selection_says_which_layers_it_took(ancestor_file):
    start = initialize(BIG.replace(depth=4), WeightSelection(ancestor_file))
    assert start.notes == ("layers    the first 4 of the source's 6",)
    source = Learngene.load(ancestor_file).tensors
    assert torch.equal(start.model.blocks[3].mlp.fc1.weight, source["blocks.3.mlp.fc1.weight"])


def test_weight_selection_at_full_size_is_the_ancestor(ancestor_file):
    model = initialize(BIG, WeightSelection(ancestor_file)).model
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in Learngene.load(ancestor_file).tensors.items())


def test_an_ancestor_that_does_not_fit_is_refused(ancestor_file, sws_file):
    with pytest.raises(UserError, match="choose the same depth"):
        initialize(BIG.replace(depth=5), Pretrained(ancestor_file))
    with pytest.raises(UserError, match="must not be deeper or wider"):
        initialize(BIG.replace(depth=7), WeightSelection(ancestor_file))
    with pytest.raises(UserError, match="layers must be between 1 and 5"):
        initialize(BIG.replace(depth=5), VanillaLG(ancestor_file, layers=6))
    with pytest.raises(UserError, match="not a whole network"):
        initialize(BIG, Pretrained(sws_file))


@pytest.mark.parametrize("initializer", [Pretrained, VanillaLG])
def test_layers_are_not_taken_for_another_number_of_heads(ancestor_file, initializer):
    with pytest.raises(UserError, match="has 3 attention heads, the descendant 4; write num_heads=3"):
        initialize(BIG.replace(num_heads=4), initializer(ancestor_file))


def test_a_source_without_a_head_has_no_number_of_classes(tmp_path):
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, num_classes=0)
    timm.models.save_for_hf(model, tmp_path / "bare", model_args={"img_size": 32}, safe_serialization=True)
    assert initializer_for(str(tmp_path / "bare"), "vanilla_lg").origin().num_classes is None
