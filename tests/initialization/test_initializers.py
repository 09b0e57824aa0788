"""Every initializer against a naive oracle, and what a misfit is told."""

import pytest
import timm
import torch
from torch.testing import assert_close

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import Learngene, take_layers
from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.methods import Pretrained, RandomStart, StagewiseExpansion, VanillaLG, WeightSelection
from lgx.methods.initializers import initializer_for

BIG = ViTArchitecture(6, 24, 3, patch_size=4, img_size=16, num_classes=5)
TASK = {"name": "shapes", "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.2, 0.2]}


@pytest.fixture(scope="module")
def ancestor_file(tmp_path_factory):
    torch.manual_seed(0)
    path = str(tmp_path_factory.mktemp("a") / "ancestor.learngene.safetensors")
    Learngene("ancestor", BIG, dict(BIG.build().state_dict()), task=TASK).save(path)
    return path


@pytest.fixture(scope="module")
def sws_file(tmp_path_factory):
    torch.manual_seed(1)
    aux = BIG.replace(stages=(2, 2, 2))
    path = str(tmp_path_factory.mktemp("s") / "sws.learngene.safetensors")
    Learngene("sws", aux, take_layers(aux.build().state_dict(), [0, 2, 4]), task=TASK).save(path)
    return path


def test_random_start_is_timms_own():
    torch.manual_seed(3)
    expected = BIG.build().state_dict()
    torch.manual_seed(3)
    start = initialize(BIG, RandomStart())
    assert start.taken == ()
    assert all(torch.equal(expected[k], v) for k, v in start.model.state_dict().items())


def test_stagewise_expansion_copies_each_stage_in_order(sws_file):
    start = initialize(BIG.replace(depth=7), StagewiseExpansion(sws_file))
    learned = Learngene.load(sws_file).tensors
    for layer, stage in enumerate([0, 0, 0, 1, 1, 2, 2]):
        assert torch.equal(start.model.blocks[layer].attn.qkv.weight, learned[f"blocks.{stage}.attn.qkv.weight"])
    assert start.random == ()
    assert start.stored == sum(t.numel() for t in learned.values())
    assert start.built == BIG.replace(depth=7).count_parameters()


def test_expanding_to_the_auxiliary_nets_own_depth_gives_its_function(sws_file):
    torch.manual_seed(1)
    auxiliary = BIG.replace(stages=(2, 2, 2)).build().eval()
    descendant = initialize(BIG, StagewiseExpansion(sws_file)).model.eval()
    image = torch.randn(2, 3, 16, 16)
    assert torch.equal(auxiliary(image), descendant(image))


def test_method_names_tell_the_strategy(sws_file):
    assert StagewiseExpansion(sws_file).method == "sws"
    assert StagewiseExpansion(sws_file, order="front_last_mid").method == "sws_order2"
    assert StagewiseExpansion(sws_file, strategy="random_assigned").method == "sws_random_assigned"


@pytest.mark.parametrize(("position", "places"), [("front", (0, 1)), ("back", (3, 4))])
def test_vanilla_takes_the_last_layers_and_nothing_else(ancestor_file, position, places):
    start = initialize(BIG.replace(depth=5), VanillaLG(ancestor_file, layers=2, position=position))
    source = Learngene.load(ancestor_file).tensors
    for place, layer in zip(places, (4, 5), strict=True):
        assert torch.equal(start.model.blocks[place].mlp.fc2.bias, source[f"blocks.{layer}.mlp.fc2.bias"])
    assert {int(n.split(".")[1]) for n in start.taken} == set(places)
    assert "head.weight" in start.random


def test_weight_selection_matches_a_naive_loop(ancestor_file):
    small = BIG.replace(depth=4, embed_dim=16, num_heads=2)
    model = initialize(small, WeightSelection(ancestor_file)).model
    source = Learngene.load(ancestor_file).tensors
    rows = [i * 24 // 16 for i in range(16)]
    hidden = [i * 96 // 64 for i in range(64)]
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


def test_weight_selection_at_full_size_is_the_ancestor(ancestor_file):
    model = initialize(BIG, WeightSelection(ancestor_file)).model
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in Learngene.load(ancestor_file).tensors.items())


def test_another_image_size_resamples_positions(ancestor_file):
    start = initialize(BIG.replace(img_size=32), Pretrained(ancestor_file))
    assert start.model.pos_embed.shape == (1, 65, 24)
    assert start.random == ()
    assert torch.equal(start.model.pos_embed[:, 0], Learngene.load(ancestor_file).tensors["pos_embed"][:, 0])


def test_a_new_head_is_random_and_the_rest_is_taken(ancestor_file):
    start = initialize(BIG.replace(num_classes=9), Pretrained(ancestor_file), head="new")
    assert start.random == ("head.weight", "head.bias")
    assert "random" in start.describe()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_classes": 9}, ("5 classes", "9", "--head 9")),
        ({"depth": 2}, ("depth 2", "3 layers")),
        ({"embed_dim": 48}, ("embed_dim 24", "48", "only the depth may differ")),
        ({"in_chans": 1}, ("patch_embed.proj.weight", "in_chans")),
    ],
)
def test_a_learngene_of_another_family_is_refused(sws_file, change, words):
    with pytest.raises(UserError) as caught:
        initialize(BIG.replace(**change), StagewiseExpansion(sws_file))
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_misfits_of_an_ancestor_are_refused(ancestor_file, sws_file):
    with pytest.raises(UserError, match="choose the same depth"):
        initialize(BIG.replace(depth=5), Pretrained(ancestor_file))
    with pytest.raises(UserError, match="must not be deeper or wider"):
        initialize(BIG.replace(depth=7), WeightSelection(ancestor_file))
    with pytest.raises(UserError, match="layers must be between 1 and 5"):
        initialize(BIG.replace(depth=5), VanillaLG(ancestor_file, layers=6))
    with pytest.raises(UserError, match="not a whole network"):
        initialize(BIG, Pretrained(sws_file))


def test_the_registry_finds_the_method_in_the_file(ancestor_file, sws_file):
    assert isinstance(initializer_for(sws_file), StagewiseExpansion)
    assert isinstance(initializer_for(ancestor_file), Pretrained)
    assert isinstance(initializer_for(ancestor_file, "weight_selection"), WeightSelection)
    assert isinstance(initializer_for(), RandomStart)
    for source, method, words in [
        (None, "sws", "needs --source"),
        (ancestor_file, "sws", "a learngene of ancestor"),
        (sws_file, "swss", "unknown"),
        (sws_file, "random", "leave out --source"),
    ]:
        with pytest.raises(UserError, match=words):
            initializer_for(source, method)


@pytest.mark.parametrize("initializer", [Pretrained, VanillaLG])
def test_layers_are_not_taken_for_another_number_of_heads(ancestor_file, initializer):
    with pytest.raises(UserError, match="has 3 attention heads, the descendant 4; write num_heads=3"):
        initialize(BIG.replace(num_heads=4), initializer(ancestor_file))


def test_a_source_without_a_head_asks_for_no_task(tmp_path):
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, num_classes=0)
    timm.models.save_for_hf(model, tmp_path / "bare", model_args={"img_size": 32}, safe_serialization=True)
    assert initializer_for(str(tmp_path / "bare"), "vanilla_lg").origin().num_classes is None
