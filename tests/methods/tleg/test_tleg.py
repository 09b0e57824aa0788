"""TLEG: every layer is a combination of two, compared with naive constructions."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import Learngene
from lgx.components.optim import parameter_groups
from lgx.initialization import initialize
from lgx.methods import LinearExpansion
from lgx.methods.tleg.method import linearly_expanded

AUX = ViTArchitecture(4, 24, 3, patch_size=4, img_size=16, num_classes=5)


@pytest.fixture
def network() -> nn.Module:
    torch.manual_seed(0)
    return linearly_expanded(AUX)


@pytest.fixture
def batch() -> Tensor:
    return torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def learngene_file(network: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("t") / "final.learngene.safetensors")
    Learngene("tleg", AUX, dict(network.state_dict())).save(path)
    return path


def naive(state: dict[str, Tensor], depth: int) -> nn.Module:
    """A plain ViT whose weights are computed layer by layer with the formula."""
    model = AUX.replace(depth=depth).build()
    written = {k: v for k, v in state.items() if not k.startswith("blocks.")}
    for name in [k.removeprefix("blocks.0.") for k in state if k.startswith("blocks.0.")]:
        theta_b, theta_a = state[f"blocks.0.{name}"], state[f"blocks.1.{name}"]
        for l in range(1, depth + 1):  # noqa: E741  # the paper's l
            written[f"blocks.{l - 1}.{name}"] = theta_b + (l - 1) / depth * theta_a
    model.load_state_dict(written)
    return model


def test_the_auxiliary_net_computes_the_same_as_a_plain_expanded_network(network, batch):
    assert_close(network.eval()(batch), naive(network.state_dict(), 4).eval()(batch))


def test_gradients_are_the_chain_rule_over_all_layers(network, batch):
    plain = naive(network.state_dict(), 4)
    plain(batch).square().sum().backward()
    network(batch).square().sum().backward()
    of_layer = {name: p.grad for name, p in plain.named_parameters()}
    for name, parameter in network.named_parameters():
        if name.startswith("blocks."):
            slope, short = name.startswith("blocks.1."), name.split(".", 2)[2]
            terms = [of_layer[f"blocks.{l}.{short}"] * (l / 4 if slope else 1) for l in range(4)]  # noqa: E741
            expected = torch.stack(terms).sum(0)
        else:
            expected = of_layer[name]
        assert_close(parameter.grad, expected, rtol=1e-4, atol=1e-5, msg=name)


def test_it_holds_two_layers_and_starts_with_norms_of_one(network):
    assert sum(p.numel() for p in network.parameters()) == AUX.replace(depth=2).count_parameters()
    assert set(network.state_dict()) == set(AUX.replace(depth=2).build("meta").state_dict())
    assert torch.equal(network.blocks[0].norm1.weight, torch.ones(24))
    assert torch.equal(network.blocks[1].norm2.weight, torch.zeros(24))
    assert network.blocks[1].attn.qkv.weight.std() > 0
    undecayed = parameter_groups(network)[0]["params"]
    assert any(p is network.pos_embed for p in undecayed)


def test_stochastic_depth_is_on_in_training_only(batch):
    network = linearly_expanded(AUX, drop_rate=0.9)
    assert not torch.equal(network.train()(batch), network(batch))
    assert torch.equal(network.eval()(batch), network(batch))
    network.training = True  # as Lightning does after validation
    assert not torch.equal(network(batch), network(batch))


@pytest.mark.slow
def test_a_compiled_network_computes_the_same(network, batch):
    expected = network(batch)
    network.compile(backend="aot_eager")
    assert_close(network.eval()(batch), expected)
    found = network.train()(batch)
    assert_close(found, expected)
    found.sum().backward()
    assert all(p.grad is not None for p in network.parameters())
    assert "blocks.1.attn.qkv.weight" in network.state_dict()


@pytest.mark.parametrize("depth", [1, 2, 3, 7, 15])
def test_descendants_of_any_depth_are_expanded_exactly(network, learngene_file, depth):
    start = initialize(AUX.replace(depth=depth), LinearExpansion(learngene_file))
    expected = naive(network.state_dict(), depth).state_dict()
    for name, tensor in start.model.state_dict().items():
        assert_close(tensor, expected[name], rtol=1e-6, atol=1e-8, msg=name)  # equal up to rounding
    assert start.random == ()
    assert start.stored == AUX.replace(depth=2).count_parameters()
