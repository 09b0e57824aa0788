"""Which values of a network of each family of ViTs its descendants start with, compared with naive loops."""

import numpy as np
import pytest
import torch
from timm.layers import resample_abs_pos_embed

from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.initialization import initialize
from lgx.methods import Pretrained, VanillaLG, WeightSelection
from tests.support.families import EACH, tiny

HEADS = ("head.", "head_dist.")


@pytest.fixture(params=EACH)
def source(request, tmp_path):
    """A file of a network of 4 layers of width 32 for 32 px, its tensors, and its architecture."""
    architecture = tiny(request.param, depth=4, img_size=32, num_classes=5)
    torch.manual_seed(0)
    tensors = {name: torch.randn(tensor.shape) for name, tensor in architecture.build().state_dict().items()}
    path = tmp_path / f"final{SUFFIX}"
    Learngene("ancestor", architecture, tensors, task={"name": "x", "mean": [0.5] * 3, "std": [0.5] * 3}).save(path)
    return str(path), tensors, architecture


def spaced(source, target):
    if source % target == 0:
        return [i * (source // target) for i in range(target)]
    return [round(i * (source - 1) / (target - 1)) for i in range(target)]


def parts_of(name, shapes):
    """Fused parts, one after the other along the first dimension."""
    if ".qkv." in name:
        return 3
    if ".kv." in name:
        return 2
    if ".fc1." in name:  # a gated MLP: twice as many outputs as the second layer has inputs
        return shapes[name][0] // shapes[name.rpartition("fc1.")[0] + "fc2.weight"][1]
    return 1


NEIGHBORS = [0, 1, 4, 5, 8, 9, 12, 13], [0, 1, 2, 3, 6, 7, 8, 9, 12, 13, 14, 15]
TURNED = {
    "vit_small_patch16_dinov3": ([0, 2, 4, 6, 8, 10, 12, 14], [0, 1, 3, 4, 6, 7, 8, 9, 11, 12, 14, 15]),
    "eva02_base_patch14_224": NEIGHBORS, "vit_pe_core_base_patch16_224": NEIGHBORS,
}  # fmt: skip
"""Form -> the elements of a head of 16 that a head of 8 and one of 12 get: whole pairs of those that are turned."""


def places(name, dim, source, target, form):
    """The elements of one dimension."""
    if ".attn." in name and form in TURNED and not name.endswith("attn.proj.bias") and dim == ("attn.proj" in name):
        return [16 * head + i for head in range(2) for i in TURNED[form][target == 24]]
    return spaced(source, target)


def selected(tensors, shapes, form):
    found = {}
    for name, shape in shapes.items():
        parts = parts_of(name, {key: tuple(tensor.shape) for key, tensor in tensors.items()})
        chunks = tensors[name].chunk(parts) if parts > 1 else [tensors[name]]
        wanted = (shape[0] // parts, *shape[1:])
        sizes = [(dim, size, wanted[dim]) for dim, size in enumerate(chunks[0].shape)]
        grids = [np.ix_(*(places(name, *size, form) for size in sizes))] * parts
        found[name] = torch.from_numpy(np.concatenate([c.numpy()[g] for c, g in zip(chunks, grids, strict=True)]))
    return found


@pytest.mark.parametrize("change", [{"embed_dim": 24, "num_heads": 1}, {"depth": 3, "embed_dim": 16, "mlp_ratio": 1.5}])
def test_weight_selection_takes_the_same_elements_in_every_family(source, change):
    path, tensors, architecture = source
    if architecture.form in TURNED:  # heads stay whole
        change = {**change, "num_heads": 2}
    start = initialize(architecture.replace(**change), WeightSelection(path))
    state = start.model.state_dict()
    expected = selected(tensors, {name: tuple(tensor.shape) for name, tensor in state.items()}, architecture.form)
    assert not start.random
    assert [name for name, tensor in state.items() if not torch.equal(tensor, expected[name])] == []
    assert start.model.eval()(torch.randn(1, 3, 32, 32)).isfinite().all()


@pytest.mark.parametrize(
    ("initializer", "size", "head"), [(Pretrained, 16, "new"), (WeightSelection, 16, "new"), (Pretrained, 48, "keep")]
)
def test_prefix_tokens_keep_their_positions_at_another_image_size_and_a_new_head_is_random(
    source, initializer, size, head
):
    path, tensors, architecture = source
    classes, grid = (3, size // 8) if head == "new" else (5, size // 8)
    start = initialize(architecture.replace(img_size=size, num_classes=classes), initializer(path), head=head)
    state, renewed = start.model.state_dict(), HEADS if head == "new" else ()
    if "pos_embed" in tensors:
        prefix = tensors["pos_embed"].shape[1] - 16
        assert torch.equal(state["pos_embed"][:, :prefix], tensors["pos_embed"][:, :prefix])
        resampled = resample_abs_pos_embed(tensors["pos_embed"], [grid, grid], num_prefix_tokens=prefix)
        torch.testing.assert_close(state["pos_embed"], resampled)
        assert state["pos_embed"].shape[1] == prefix + grid**2
    assert set(start.random) == {name for name in state if name.startswith(renewed)}
    others = [name for name in state if name != "pos_embed" and not name.startswith(renewed)]
    assert [name for name in others if not torch.equal(state[name], tensors[name])] == []
    assert start.model.eval()(torch.randn(1, 3, size, size)).shape == (1, classes)


def test_vanilla_lg_takes_the_last_layers_alone(source):
    path, tensors, architecture = source
    start = initialize(architecture.replace(depth=3, img_size=16), VanillaLG(path, 2))
    state = start.model.state_dict()
    assert {tuple(name.split(".")[:2]) for name in start.taken} == {("blocks", "1"), ("blocks", "2")}
    for name in start.taken:
        _, place, rest = name.split(".", 2)
        assert torch.equal(state[name], tensors[f"blocks.{1 + int(place)}.{rest}"])
    last = initialize(architecture.replace(depth=1), VanillaLG(path, 1)).model.state_dict()
    assert all(torch.equal(last[f"blocks.0.{key[9:]}"], tensors[key]) for key in tensors if key.startswith("blocks.3."))
