"""``lgx backbones`` says of timm's pretrained ViTs which are read, and why the others are not."""

import pytest
import timm

from lgx.architectures.describing import describe_timm_model
from lgx.commands.backbones import describe_backbone, names_of_backbones
from tests.support.command_line import lgx, ok, refusal


def listed(pattern):
    head, *lines = ok(lgx("backbones", pattern)).out.splitlines()
    assert head.split() == ["backbone", "read", "parameters", "px", "license"]
    return {line.split()[0]: line for line in lines}


def test_a_plain_vit_is_read_and_predicted():
    line = listed("vit_tiny_patch16_224")["vit_tiny_patch16_224.augreg_in21k_ft_in1k"]
    assert line.split(maxsplit=6)[1:] == ["yes", "5.7", "M", "224", "apache-2.0", "(also predicted by hypernetworks)"]
    parameters = sum(p.numel() for p in timm.create_model("vit_tiny_patch16_224").parameters())
    assert describe_backbone("vit_tiny_patch16_224")[0] == parameters


@pytest.mark.parametrize(
    "name", ["vit_small_patch14_reg4_dinov2", "vit_small_patch16_dinov3", "deit3_small_patch16_224"]
)
def test_another_family_is_read_but_not_predicted_and_described_as_by_its_name(name):
    architecture = describe_backbone(name)[1].architecture
    assert architecture.form
    assert describe_timm_model(name).architecture is not None


def test_a_model_that_is_not_read_has_a_reason():
    found = listed("beit_base_patch16_224.*")
    assert len(found) > 1
    assert all(line.split()[1] == "no" and "Beit" in line for line in found.values())


def test_a_name_that_timm_does_not_have_is_refused():
    assert "vit_enormous: timm has no pretrained ViT of that name" in refusal(lgx("backbones", "vit_enormous"))


@pytest.mark.slow
def test_most_of_timms_pretrained_vits_are_read():
    names = [name.partition(".")[0] for name in names_of_backbones("*")]
    found = {name: describe_backbone(name)[1] for name in names}
    assert len(names) >= 463
    assert sum(found[name].architecture is not None for name in names) >= 380
    assert all(each.architecture is not None or each.reason for each in found.values())
    for name, each in list(found.items())[::20]:
        assert (each.architecture is None) == (describe_timm_model(name).architecture is None), name
