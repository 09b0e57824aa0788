"""Networks of the meta device have the shapes of real ones, without the time of their random start."""

import pytest
import torch
from torch import nn

from lgx.architectures import parse_any_architecture
from lgx.architectures.meta_device import building_on
from tests.support.families import EACH, tiny


@pytest.mark.parametrize("family", EACH)
def test_shapes_are_those_of_the_network_with_values(family: str) -> None:
    for architecture in (tiny(family), parse_any_architecture("gpt2:depth=1,embed_dim=16,num_heads=2,max_len=8")):
        meta, real = architecture.build("meta").state_dict(), architecture.build().state_dict()
        assert {name: (tensor.shape, tensor.dtype) for name, tensor in meta.items()} == {
            name: (tensor.shape, tensor.dtype) for name, tensor in real.items()
        }


def test_values_of_real_tensors_are_computed_while_networks_are_built_on_meta() -> None:
    real = torch.zeros(3)
    with building_on("meta"):
        nn.init.ones_(real)
        real.add_(1)
        layer = nn.Linear(2, 2)
    assert real.tolist() == [2.0, 2.0, 2.0]
    assert layer.weight.is_meta
    assert layer.weight.requires_grad


def test_a_network_on_the_cpu_has_the_random_start_of_timm() -> None:
    torch.manual_seed(0)
    with building_on(None):
        ours = nn.Linear(4, 4).weight
    torch.manual_seed(0)
    assert torch.equal(ours, nn.Linear(4, 4).weight)
