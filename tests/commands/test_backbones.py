"""``lgx backbones`` says of timm's pretrained ViTs which are read, and why the others are not."""

import json

import pytest
import timm

from lgx.architectures.describing import describe_timm_model
from lgx.artifacts.backbones import describe_backbone, names_of_backbones
from tests.support.command_line import lgx


def listed(pattern):
    result = lgx("backbones", pattern, "--json")
    assert result.code == 0, result.err
    return {backbone["name"]: backbone for backbone in json.loads(result.out)}


def test_a_plain_vit_is_read_and_predicted():
    found = listed("vit_tiny_patch16_224")["vit_tiny_patch16_224.augreg_in21k_ft_in1k"]
    assert (found["is_read"], found["is_predicted"], found["reason"]) == (True, True, "")
    assert found["parameters"] == sum(p.numel() for p in timm.create_model("vit_tiny_patch16_224").parameters())
    assert (found["img_size"], found["license"]) == ([224, 224], "apache-2.0")


@pytest.mark.parametrize(
    "name", ["vit_small_patch14_reg4_dinov2", "vit_small_patch16_dinov3", "deit3_small_patch16_224"]
)
def test_another_family_is_read_but_not_predicted_and_described_as_by_its_name(name):
    found = describe_backbone(names_of_backbones(f"{name}.*")[0])
    assert (found.is_read, found.is_predicted) == (True, False)
    assert describe_timm_model(name).architecture is not None


def test_a_model_that_is_not_read_has_a_reason():
    found = listed("beit_base_patch16_224.*")
    assert len(found) > 1
    for backbone in found.values():
        assert not backbone["is_read"]
        assert "Beit" in backbone["reason"]


def test_the_table_has_one_line_for_each_and_a_sum():
    result = lgx("backbones", "deit_tiny_*")
    assert result.code == 0, result.err
    head, *lines, last = result.out.splitlines()
    assert head.startswith("backbone")
    assert [line.split()[0] for line in lines] == names_of_backbones("deit_tiny_*")
    assert last.startswith(f"{len(lines)} of {len(lines)} are read")


def test_a_name_that_timm_does_not_have_is_refused():
    result = lgx("backbones", "vit_enormous")
    assert result.code == 2
    assert "--filter vit_enormous: timm has no pretrained ViT of that name" in result.sentence


@pytest.mark.slow
def test_most_of_timms_pretrained_vits_are_read():
    names = names_of_backbones()
    found = [describe_backbone(name) for name in names]
    assert len(names) >= 463
    assert sum(backbone.is_read for backbone in found) >= 380
    assert all(backbone.is_read or backbone.reason for backbone in found)
    for backbone in found[::20]:
        described = describe_timm_model(backbone.name.partition(".")[0])
        assert backbone.is_read == (described.architecture is not None), backbone.name
