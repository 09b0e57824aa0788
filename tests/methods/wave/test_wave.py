"""WAVE: matrices are sums of Kronecker products of scalers and shared templates."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.errors import UserError
from lgx.methods.wave.method import KINDS, FromTemplates, plain_parameters, templates_of, use_templates
from tests.support.command_line import arguments, lgx, ok

SMALL = ViTArchitecture(3, 16, 2, patch_size=4, img_size=16, num_classes=5)
NARROW = "--model.arch=depth=2,embed_dim=8,num_heads=1,patch_size=4,img_size=16"
IMAGES = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))


@given(number=st.integers(1, 4), blocks=st.tuples(st.integers(1, 3), st.integers(1, 3)), size=st.integers(1, 4))
def test_a_matrix_is_the_sum_of_kronecker_products(number, blocks, size):
    draw = torch.Generator().manual_seed(number)
    templates = torch.randn(number, size, size, generator=draw, dtype=torch.float64)
    scalers = torch.randn(number, *blocks, generator=draw, dtype=torch.float64)
    expected = sum(torch.kron(s, t) for s, t in zip(scalers, templates, strict=True))
    computed = FromTemplates(templates)(scalers)
    assert_close(computed, expected)
    if number <= size * size:
        assert_close(FromTemplates(templates).right_inverse(computed), scalers)


def test_more_templates_represent_a_network_better_and_enough_of_them_exactly():
    plain, errors = SMALL.build().eval(), []
    for number in (1, 4, 9, 16):
        network = SMALL.build().eval()
        network.load_state_dict(plain.state_dict())
        use_templates(network, templates_of(network, number, 4), learned=True)
        errors.append((network.blocks[1].mlp.fc1.weight - plain.blocks[1].mlp.fc1.weight).norm().item())
    assert errors == sorted(errors, reverse=True)
    templates = templates_of(plain, 1, 4)["mlp.fc1"]
    assert_close(templates.square().mean(), torch.cat([b.mlp.fc1.weight for b in plain.blocks]).square().mean())
    assert errors[2] > 1e-3
    assert_close(network(IMAGES), plain(IMAGES), atol=1e-5, rtol=1e-4)


def test_all_layers_share_the_templates_and_each_trains_its_own_scalers():
    network = use_templates(SMALL.build(), templates_of(SMALL.build(), 2, 8), learned=True)
    names = [name for name, _ in network.named_parameters()]
    assert sum(name.endswith("templates") for name in names) == len(KINDS)
    assert sum(name.endswith("original") for name in names) == len(KINDS) * SMALL.depth
    network(IMAGES).sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_a_plain_network_computes_the_same():
    network = use_templates(SMALL.build(), templates_of(SMALL.build(), 2, 8), learned=False).eval()
    assert not any(name.endswith("templates") for name, _ in network.named_parameters())
    plain = SMALL.build().eval()
    plain.load_state_dict(plain_parameters(network.state_dict()))
    assert_close(plain(IMAGES), network(IMAGES))


@pytest.fixture(scope="module")
def templates(images, ancestor, tmp_path_factory):
    """Run folder whose learngene has templates that were fitted to the ancestor's layers and trained."""
    runs = tmp_path_factory.mktemp("wave")
    options = ("--name=templates", f"--model.ancestor={ancestor}/final{SUFFIX}", "--model.start=middle")
    own = ("--model.number=3", "--model.size=8", "--trainer.max_epochs=2")
    ok(lgx(*arguments("fit", "WAVE", images, runs, *options, *own)))
    return runs / "test/templates/seed0"


def test_the_learngene_is_the_templates_and_what_is_outside_of_the_layers(templates):
    learngene = Learngene.load(templates / f"final{SUFFIX}")
    assert (learngene.method, learngene.content) == ("wave_from_middle", "templates")
    assert {name for name in learngene.tensors if name.startswith("templates.")} == {f"templates.{k}" for k in KINDS}
    assert learngene.tensors["templates.mlp.fc2"].shape == (3, 8, 8)
    assert not any(name.startswith("blocks.") for name in learngene.tensors)
    with pytest.raises(UserError, match=r"holds templates of wave.*--model\.templates"):
        load_pretrained(str(templates / f"final{SUFFIX}"))
    result = lgx("init", "--source", templates / f"final{SUFFIX}", "--arch", "depth=2", "--out", templates / "x")
    assert result.code == 2
    assert "--model.templates" in result.sentence


def test_a_network_of_another_size_learns_scalers_for_frozen_templates(templates, fit, tmp_path):
    given = Learngene.load(templates / f"final{SUFFIX}")
    ok(fit("WAVE", f"--model.templates={templates}/final{SUFFIX}", NARROW, "--name=narrow"))
    file = tmp_path / f"runs/test/narrow/seed0/final{SUFFIX}"
    whole = Learngene.load(file)
    assert whole.content == "network"
    matrix = whole.tensors["blocks.1.attn.proj.weight"]
    scalers = FromTemplates(given.tensors["templates.attn.proj"]).right_inverse(matrix)
    assert_close(FromTemplates(given.tensors["templates.attn.proj"])(scalers), matrix)
    ok(fit("Finetune", NARROW, "--model.initializer=Pretrained", f"--model.initializer.source={file}"))
