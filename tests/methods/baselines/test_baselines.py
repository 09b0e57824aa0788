"""The initializers of the baselines; test_values_of_families.py compares them with naive loops."""

import pytest
import timm
import torch
from timm.models.convnext import ConvNeXt

from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.initialization.width import evenly_spaced
from lgx.methods import RandomStart
from lgx.methods.baselines.weight_selection import select_convnext
from lgx.methods.initializers import initializer_for
from tests.support.command_line import lgx, ok, refusal
from tests.support.untrained_learngenes import BIG


def test_random_start_is_timms_own():
    torch.manual_seed(3)
    expected = BIG.build().state_dict()
    torch.manual_seed(3)
    start = initialize(BIG, RandomStart())
    assert start.taken == ()
    assert all(torch.equal(expected[k], v) for k, v in start.model.state_dict().items())


def test_a_source_without_a_head_has_no_number_of_classes(tmp_path):
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, num_classes=0)
    timm.models.save_for_hf(model, tmp_path / "bare", model_args={"img_size": 32}, safe_serialization=True)
    assert initializer_for(str(tmp_path / "bare"), "vanilla_lg").origin().num_classes is None


NAMES = ("source", "target")


def convnext(depths=(2, 1, 3, 1), dims=(12, 16, 24, 32), **options):
    return ConvNeXt(depths=depths, dims=dims, **{"num_classes": 5} | options)


def test_each_stage_takes_its_first_blocks_and_even_elements_of_every_tensor():
    source, model = convnext(), convnext((1, 1, 2, 1), (8, 8, 12, 16), conv_mlp=True)
    selected = select_convnext(source, model, NAMES, "keep")
    missing = model.load_state_dict(selected)
    assert not missing.missing_keys
    rows, hidden = list(range(0, 24, 2)), list(range(0, 96, 2))
    theirs, ours = source.stages[2].blocks[1], model.stages[2].blocks[1]
    assert torch.equal(ours.mlp.fc1.weight[:, :, 0, 0], theirs.mlp.fc1.weight[hidden][:, rows])
    assert torch.equal(ours.gamma, theirs.gamma[rows])
    assert torch.equal(ours.conv_dw.weight, theirs.conv_dw.weight[rows])
    narrow = [0, 2, 3, 5, 6, 8, 9, 11]  # 12 -> 8: 0, 1.57, 3.14, 4.71, 6.29, 7.86, 9.43, 11
    assert evenly_spaced(12, 8) == narrow
    assert torch.equal(model.stem[0].weight, source.stem[0].weight[narrow])
    step = model.stages[2].downsample[1].weight
    assert torch.equal(step, source.stages[2].downsample[1].weight[rows][:, list(range(0, 16, 2))])
    assert model(torch.randn(1, 3, 64, 64)).isfinite().all()


def test_a_convnext_of_the_same_size_is_the_source_but_for_a_new_head():
    source, model = convnext(), convnext()
    model.load_state_dict(select_convnext(source, model, NAMES, "keep"))
    images = torch.randn(1, 3, 64, 64)
    assert torch.equal(model.eval()(images), source.eval()(images))
    selected = select_convnext(convnext(), convnext(num_classes=3), NAMES, "new")
    assert "head.norm.weight" in selected
    assert "head.fc.weight" not in selected


@pytest.mark.parametrize(
    ("source", "model", "sentence"),
    [
        ({}, {"depths": (3, 1, 3, 1)}, "target is not a part of source: stages.0.blocks.2.gamma is .* missing"),
        ({}, {"dims": (16, 16, 24, 32)}, "target is not a part of source: stem.0.weight"),
        ({}, {"use_grn": True, "ls_init_value": None}, "another kind of ConvNeXt than source: it has no .*gamma"),
        ({"use_grn": True}, {}, "another kind of ConvNeXt than source"),
        ({}, {"num_classes": 7}, "the head of source has 5 classes, but target has 7; give it a new head"),
    ],
)
def test_a_model_that_the_source_cannot_fill_is_refused(source, model, sentence):
    with pytest.raises(UserError, match=sentence):
        select_convnext(convnext(**source), convnext(**model), NAMES, "keep")


def test_another_family_is_refused():
    with pytest.raises(UserError, match="source is a ResNet; choose a source and an architecture of one family"):
        select_convnext(timm.create_model("resnet10t"), convnext(), NAMES, "keep")
    with pytest.raises(UserError, match="target is a ResNet"):
        select_convnext(convnext(), timm.create_model("resnet10t"), NAMES, "keep")


def test_lgx_init_writes_a_convnext_that_plain_timm_loads(tmp_path):
    torch.manual_seed(0)
    larger = timm.create_model("convnext_femto", num_classes=4)
    timm.models.save_for_hf(larger, tmp_path / "femto", safe_serialization=True)
    given = ["--source", tmp_path / "femto", "--method", "weight_selection", "--arch"]
    result = ok(lgx("init", *given, "timm:convnext_atto,img_size=64", "--out", tmp_path / "atto"))
    assert "built     timm:convnext_atto, 4 classes" in result.out
    assert "random    0 parameters: none" in result.out
    assert "layers    the first 2-2-6-2 blocks of the stages of 2-2-6-2" in result.out
    model = timm.create_model(f"local-dir:{tmp_path / 'atto'}", pretrained=True)
    assert torch.equal(model.stages[0].blocks[0].gamma, larger.stages[0].blocks[0].gamma[evenly_spaced(48, 40)])
    sentence = refusal(lgx("init", *given, "timm:convnext_pico", "--out", tmp_path / "pico"))
    assert "timm:convnext_pico is not a part of" in sentence
    assert not (tmp_path / "pico").exists()
