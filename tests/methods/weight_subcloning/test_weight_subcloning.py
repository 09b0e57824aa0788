"""Weight subcloning: what is important is kept, everywhere the same."""

import pytest
import torch
from PIL import Image
from torch import nn
from torch.nn.functional import cosine_similarity
from torch.testing import assert_close

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.methods import WeightSubcloning
from lgx.methods.weight_subcloning import initializer
from lgx.methods.weight_subcloning.importance import of_weights, on_inputs
from lgx.methods.weight_subcloning.initializer import layers_by_change, without_the_middle
from tests.support.families import EACH, tiny
from tests.support.learngenes import save_source

WIDE = ViTArchitecture(5, 24, 3, patch_size=4, img_size=16, num_classes=5, mlp_ratio=2.0)
SMALL = WIDE.replace(depth=3, embed_dim=16, num_heads=2, mlp_ratio=1.5)
STREAM = [i for i in range(24) if i % 3]
"""Dimensions of the residual stream that carry the network's values."""
NEURONS = list(range(4, 28))
LAYERS = (0, 2, 4)


@pytest.fixture(scope="module")
def sparse(tmp_path_factory):
    """A network in which some dimensions, head 1, some neurons, and layers 1 and 3 are tiny."""
    torch.manual_seed(0)
    state = WIDE.build().state_dict()
    unused = [i for i in range(24) if i not in STREAM]
    for name, tensor in state.items():
        if name.startswith("blocks."):
            tensor.copy_(torch.randn_like(tensor) * (0.3 if "norm" not in name else 0.1) + ("norm" in name))
        if name in ("cls_token", "pos_embed"):
            tensor.normal_()[..., unused] *= 1e-4
        if name.endswith(("patch_embed.proj.weight", "patch_embed.proj.bias", "attn.proj.weight", "attn.proj.bias",
                          "fc2.weight", "fc2.bias")):  # fmt: skip
            tensor[unused] *= 1e-4
            if "blocks.1." in name or "blocks.3." in name:
                tensor *= 1e-3
        if ".qkv." in name:
            tensor.reshape(3, 3, 8, -1)[:, 1] *= 1e-4
        if name.endswith("fc1.bias"):
            tensor.abs_().add_(1)  # no neuron is silent
        if ".fc1." in name:
            tensor[[i for i in range(48) if i not in NEURONS]] *= 1e-4
    path = tmp_path_factory.mktemp("sparse") / f"final{SUFFIX}"
    task = {"name": "shapes", "mean": [0.5] * 3, "std": [0.5] * 3}
    Learngene("ancestor", WIDE, state, task=task).save(path)
    return str(path)


@pytest.mark.parametrize("drop", ["change", "magnitude"])
def test_the_parts_that_carry_the_values_are_kept_and_scaled(sparse, images, drop):
    initializer = WeightSubcloning(sparse, str(images), images=8, drop=drop)
    start = initialize(SMALL, initializer)
    source, state = Learngene.load(sparse).tensors, start.model.state_dict()
    heads = [*range(8), *range(16, 24)]
    assert not start.random
    for own, layer in enumerate(LAYERS):
        ours, theirs = f"blocks.{own}.", f"blocks.{layer}."
        assert torch.equal(state[f"{ours}norm1.weight"], source[f"{theirs}norm1.weight"][STREAM])
        assert torch.equal(state[f"{ours}mlp.fc1.bias"], source[f"{theirs}mlp.fc1.bias"][NEURONS])
        qkv = source[f"{theirs}attn.qkv.weight"].reshape(3, 24, 24)[:, heads][:, :, STREAM].reshape(48, 16)
        assert_close(state[f"{ours}attn.qkv.weight"], qkv * (24 / 16) ** 0.5)
        proj = source[f"{theirs}attn.proj.weight"][STREAM][:, heads]
        assert_close(state[f"{ours}attn.proj.weight"], proj * (24 / 16) ** 0.5)
        fc2 = source[f"{theirs}mlp.fc2.weight"][STREAM][:, NEURONS]
        assert_close(state[f"{ours}mlp.fc2.weight"], fc2 * 2**0.5)
    assert torch.equal(state["pos_embed"], source["pos_embed"][:, :, STREAM])
    assert_close(state["head.weight"], source["head.weight"][:, STREAM] * (24 / 16) ** 0.5)


def test_without_images_the_norms_of_weights_and_the_middle_decide(sparse):
    initializer = WeightSubcloning(sparse)
    start = initialize(SMALL, initializer)
    source = Learngene.load(sparse).tensors
    assert initializer.named(SMALL) == "weight_subcloning_norms"
    assert torch.equal(start.model.blocks[2].mlp.fc1.bias, source["blocks.4.mlp.fc1.bias"][NEURONS])
    assert start.notes == (
        "layers    0 1 4 of the source, counted from 0; dropped: middle",
        "ranked    by norms of the weights, because no images are given (data)",
    )


def test_the_first_layers_are_kept_if_the_last_are_dropped(sparse, images):
    start = initialize(SMALL, WeightSubcloning(sparse, str(images), images=8, drop="last"))
    source, state = Learngene.load(sparse).tensors, start.model.state_dict()
    for layer in range(3):
        assert torch.equal(state[f"blocks.{layer}.mlp.fc1.bias"], source[f"blocks.{layer}.mlp.fc1.bias"][NEURONS])


def test_the_middle_is_dropped():
    assert without_the_middle(12, 6) == [0, 1, 2, 9, 10, 11]
    assert without_the_middle(12, 9) == [0, 1, 2, 3, 4, 8, 9, 10, 11]
    assert without_the_middle(3, 3) == [0, 1, 2]
    assert without_the_middle(3, 1) == [0]


def test_the_importance_of_layers_and_neurons_is_that_of_a_naive_loop():
    torch.manual_seed(1)
    model, images = WIDE.build().eval(), torch.randn(20, 3, 16, 16)
    found = on_inputs(model, WIDE, images)
    with torch.no_grad():
        x = model.norm_pre(model._pos_embed(model.patch_embed(images)))
        for layer, block in enumerate(model.blocks):
            after = block(x)
            ratio = ((after - x).norm(dim=2) / after.norm(dim=2)).mean()
            assert_close(found.layers[layer].float(), ratio)
            middle = x + block.attn(block.norm1(x))
            neurons = block.mlp.act(block.mlp.fc1(block.norm2(middle))).abs().mean((0, 1))
            ours = found.elements["hidden", f"blocks.{layer}.mlp"].float()
            assert_close(ours / len(images), neurons / neurons.mean(), rtol=1e-2, atol=5e-3)
            x = after


def test_the_first_and_the_last_layer_are_kept_even_without_effect_and_the_network_stays_as_it_was():
    torch.manual_seed(2)
    model = WIDE.build().eval()
    for block in (model.blocks[0], model.blocks[-1]):
        for layer in (block.attn.proj, block.mlp.fc2):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
    images = torch.randn(4, 3, 16, 16)
    before, order = model(images), layers_by_change(model, WIDE, images)
    assert torch.equal(model(images), before)
    assert (order[:2], sorted(order)) == ([0, 4], [0, 1, 2, 3, 4])


class Skipped(nn.Module):
    """A layer that changes nothing."""

    def forward(self, x, **_):
        return x


@pytest.mark.parametrize("family", ["plain", "eva02"])
def test_each_dropped_layer_is_the_one_without_which_the_features_change_least(family):
    model, images = tiny(family, depth=6).build().eval(), torch.randn(4, 3, 16, 16)
    nn.init.normal_(model.pos_embed)
    layers, skipped = list(model.blocks), []

    def features(without):
        for i, layer in enumerate(layers):
            model.blocks[i] = Skipped() if i in without else layer
        return model.forward_head(model.forward_features(images), pre_logits=True)

    with torch.no_grad():
        whole = features([])
        while len(skipped) < 4:
            near = {
                i: cosine_similarity(features([*skipped, i]), whole).mean() for i in {1, 2, 3, 4}.difference(skipped)
            }
            skipped.append(max(near, key=near.get))
        features([])
    architecture = tiny(family, depth=6)
    assert layers_by_change(model, architecture, images, 2) == [0, 5, *skipped[::-1]]
    four = layers_by_change(model, architecture, images, 4)
    assert layers_by_change(model, architecture, images, 2, four[4:]) == [0, 5, *skipped[::-1]]


def test_layers_that_are_dropped_for_one_depth_are_not_searched_again_for_another(sparse, images, monkeypatch):
    depths, once = (4, 2, 5, 3, 1), WeightSubcloning(sparse, str(images), images=4)
    wanted = [WeightSubcloning(sparse, str(images), images=4).layers(depth) for depth in depths]
    given = []
    monkeypatch.setattr(initializer, "layers_by_change", lambda *a: given.append(a[3:]) or layers_by_change(*a))
    assert [once.layers(depth) for depth in depths] == wanted
    assert [(depth, len(dropped)) for depth, dropped in given] == [(4, 0), (2, 1), (1, 3)]


def test_narrower_heads_keep_the_same_elements_of_each_head(sparse, images):
    target = WIDE.replace(embed_dim=12, num_heads=3)
    state = initialize(target, WeightSubcloning(sparse, str(images), images=4)).model.state_dict()
    initializer = WeightSubcloning(sparse, str(images), images=4)
    by_head = initializer.ranked.elements["heads", "blocks.0.attn"].reshape(3, 8)
    within = sorted(by_head.mean(0).topk(4).indices.tolist())
    rows = [head * 8 + element for head in range(3) for element in within]
    source = Learngene.load(sparse).tensors["blocks.0.attn.qkv.bias"].reshape(3, 24)[:, rows].flatten()
    assert torch.equal(state["blocks.0.attn.qkv.bias"], source)


def test_images_are_normalized_and_magnitudes_need_some(sparse, tmp_path):
    Image.new("RGB", (16, 16), "white").save(tmp_path / "white.png")
    assert_close(WeightSubcloning(sparse, str(tmp_path), images=1).sample, torch.ones(1, 3, 16, 16))
    with pytest.raises(UserError, match="needs inputs; give a folder"):
        initialize(SMALL, WeightSubcloning(sparse, drop="magnitude"))


def test_no_test_image_of_a_table_is_read(sparse, tmp_path):
    for name, color in (("a", "white"), ("b", "white"), ("c", "black")):
        Image.new("RGB", (16, 16), color).save(tmp_path / f"{name}.png")
    (tmp_path / "labels.csv").write_text("file,label,split\na.png,x,train\nb.png,y,train\nc.png,x,test\n")
    assert_close(WeightSubcloning(sparse, str(tmp_path), images=9).sample, torch.ones(2, 3, 16, 16))


@pytest.mark.parametrize("family", EACH)
def test_networks_of_every_family_are_measured_on_images(family, images, tmp_path):
    source = tiny(family, depth=3)
    path = save_source(WeightSubcloning, tmp_path / f"final{SUFFIX}", network=source)
    target = source.replace(depth=2, embed_dim=16, num_heads=1)
    initializer = WeightSubcloning(str(path), str(images), images=1)
    start = initialize(target, initializer)
    assert not start.random
    assert start.model.eval()(torch.randn(1, 3, 16, 16)).isfinite().all()
    kept = initializer.ranked.elements["embed", ""].topk(16).indices.sort().values
    norm = "blocks.{}.norm2.weight".format
    expected = Learngene.load(path).tensors[norm(initializer.layers(2)[1])][kept]
    assert torch.equal(start.model.state_dict()[norm(1)], expected)


def test_importance_by_weights_is_relative_to_neighbors_however_small_they_are():
    tensors = {name: torch.randn(t.shape) for name, t in tiny("plain").build().state_dict().items()}
    found, small = (of_weights({k: s * t for k, t in tensors.items()}, tiny("plain")).elements for s in (1, 1e-4))
    for key, values in found.items():
        assert_close(small[key], values)
        assert_close(values.mean(), values.mean().round())  # 1 of each matrix
