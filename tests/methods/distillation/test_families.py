"""Auxiliary nets of every family of ViTs: learngenes, starts from the ancestor, features."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import PretrainedNetwork
from lgx.components.features import FeatureProjection, feature_losses, read_features
from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.methods import SWS, TLEG, Distill, MiniDeiT
from lgx.methods.distillation.start import start_from_ancestor
from lgx.methods.initializers import initializer_for
from lgx.methods.mini_deit.method import MultiplexedMlp
from tests.support.families import EACH, tiny

UNKNOWN_TO_MINI_DEIT = ("dinov2_swiglu", "dinov3", "eva", "eva02", "perception_encoder", "aimv2")


def method_for(cls: Any, architecture: ViTArchitecture, **options: Any) -> Any:
    spec = architecture.replace(depth=4).spec()
    return cls(arch=spec, num_classes=architecture.num_classes, optimizer=torch.optim.AdamW, **options)


def moved(network: nn.Module) -> nn.Module:
    """The network with random parameters, so that each of them matters."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return network.eval()


def images() -> Tensor:
    return torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("family", EACH)
@pytest.mark.parametrize("cls", [SWS, TLEG])
def test_a_descendant_of_the_auxiliary_nets_depth_has_its_function(cls, family, tmp_path):
    options = {"stages": (2, 2)} if cls is SWS else {}
    method = method_for(cls, tiny(family), **options)
    network = moved(method.build_network())
    path = str(tmp_path / "final.learngene.safetensors")
    learngene = method.learngene(network.state_dict())
    assert (learngene.num_layers, learngene.architecture) == (2, method.architecture)
    learngene.save(path)
    start = initialize(method.architecture.unshared(), initializer_for(path))
    assert start.random == ()
    assert_close(start.model.eval()(images()), network(images()))
    network(images()).square().sum().backward()
    assert all(p.grad is not None for name, p in network.named_parameters() if p.requires_grad)


@pytest.mark.parametrize("family", EACH)
def test_a_start_with_all_layers_of_the_ancestor_is_the_ancestor(family):
    method = method_for(Distill, tiny(family), start="middle", ancestor="ancestor")
    ancestor = moved(method.architecture.build())
    source = PretrainedNetwork("ancestor", ancestor, method.architecture)
    network = method.random_network().eval()
    record = start_from_ancestor(network, method.architecture, source, method.ancestor_shares(4))
    assert record.random == ()
    assert_close(network(images()), ancestor(images()))


@pytest.mark.parametrize("family", EACH)
def test_features_of_every_family_are_compared_through_a_projection(family):
    teacher, student = (moved(tiny(family, num_classes=classes).build()) for classes in (0, 5))
    wanted, _ = read_features(teacher, images())
    found, tokens = read_features(student, images())
    assert wanted.patches.shape == (2, 32, 2, 2)
    assert_close(student.forward_head(tokens), student(images()))
    losses, _ = feature_losses(FeatureProjection(32, 32, 32)(found), wanted)
    assert losses.shape == (2,)


@pytest.mark.parametrize("family", EACH)
def test_mini_deit_transforms_the_image_tokens_of_a_family_or_names_what_it_cannot(family):
    architecture = tiny(family)
    method = method_for(MiniDeiT, architecture, stages=(2, 2))
    if family in UNKNOWN_TO_MINI_DEIT:
        with pytest.raises(UserError, match=f"does not support layers of {architecture.form}"):
            method.build_network()
        return
    network = method.build_network().eval()
    plain = method.architecture.build().eval()
    assert plain.load_state_dict(network.state_dict(), strict=False).missing_keys == []
    assert_close(network(images()), plain(images()))
    mlp = network.blocks[0].mlp
    assert isinstance(mlp, MultiplexedMlp)
    assert mlp.prefix == architecture.num_prefix_tokens
    tokens = torch.randn(1, architecture.num_prefix_tokens + 4, 32)
    before = mlp(tokens)
    nn.init.normal_(mlp.local.weight)
    changed = (mlp(tokens) - before).abs().sum(dim=2)[0] > 0
    assert changed.tolist() == [False] * architecture.num_prefix_tokens + [True] * 4
    learngene = method.learngene(network.state_dict())
    assert isinstance(learngene, Learngene)
    assert learngene.num_layers == 2


def test_a_start_from_an_ancestor_of_another_family_is_refused():
    method = method_for(Distill, tiny("plain"), start="middle", ancestor="ancestor")
    other = tiny("dinov2", depth=4)
    source = PretrainedNetwork("ancestor", other.build(), other)
    with pytest.raises(UserError, match=r"model\.start: the source has the form vit_small_patch14_dinov2"):
        start_from_ancestor(method.random_network(), method.architecture, source, method.ancestor_shares(4))
