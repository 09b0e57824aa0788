"""Optimizers are fused where they can be, and nowhere else."""

import pytest
import torch
from torch import nn

from lgx.components.optim import fuse


def fused(kind: type[torch.optim.Optimizer], **options: object) -> bool:
    optimizer = kind(nn.Linear(3, 2).parameters(), lr=0.1, **options)
    fuse(optimizer)
    return bool(optimizer.param_groups[0].get("fused"))


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_optimizers_of_torch_are_fused_unless_an_option_says_otherwise(kind: type[torch.optim.Optimizer]) -> None:
    assert fused(kind)
    assert not fused(kind, fused=False)
    assert not fused(kind, foreach=True)
    assert not fused(kind, differentiable=True)


def test_other_optimizers_and_parameters_stay_as_they_are() -> None:
    class Own(torch.optim.AdamW):
        pass

    assert not fused(Own)
    assert not fused(torch.optim.Adagrad)
    optimizer = torch.optim.AdamW(nn.Linear(3, 2, device="meta").parameters())
    fuse(optimizer)
    assert not optimizer.param_groups[0]["fused"]


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_fused_steps_are_those_of_the_plain_optimizer(kind: type[torch.optim.Optimizer]) -> None:
    options = {"lr": 0.05, "weight_decay": 0.1} | ({"momentum": 0.9} if kind is torch.optim.SGD else {})
    layers, inputs = [nn.Linear(8, 8) for _ in range(2)], torch.randn(5, 8)
    layers[1].load_state_dict(layers[0].state_dict())
    optimizers = [kind(layer.parameters(), **options) for layer in layers]
    fuse(optimizers[0])
    for _ in range(10):
        for layer, optimizer in zip(layers, optimizers, strict=True):
            optimizer.zero_grad()
            layer(inputs).square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(layers[0].weight, layers[1].weight)


def test_a_run_trains_with_a_fused_optimizer(fit, tmp_path) -> None:
    assert fit("Ancestor", "--name=fused").code == 0
    path = tmp_path / "runs" / "test" / "fused" / "seed0" / "checkpoints" / "last.ckpt"
    groups = torch.load(path, weights_only=True)["optimizer_states"][0]["param_groups"]
    assert all(group["fused"] for group in groups)
