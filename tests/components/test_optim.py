"""Optimizer groups, and fused optimizers where they can be."""

import math

import pytest
import torch
from torch import nn

from lgx.architectures import HFArchitecture
from lgx.components.optim import Poly, WarmupCosine, fuse, parameter_groups
from lgx.errors import UserError


def test_embeddings_have_no_weight_decay():
    decayed, kept = parameter_groups(HFArchitecture(1, 8, 2, max_len=5, vocab_size=7).build("meta"))
    if "weight_decay" in decayed:
        decayed, kept = kept, decayed
    shapes = {tuple(p.shape) for p in kept["params"]}
    assert {(7, 8), (5, 8)} <= shapes
    assert not {(7, 8), (5, 8)} & {tuple(p.shape) for p in decayed["params"]}


@pytest.mark.parametrize(("total", "warmup"), [(10, 0.4), (7, 0.0), (40, 0.05), (4, 0.5)])
def test_the_rate_rises_evenly_and_falls_along_a_cosine(total, warmup):
    warm = round(warmup * total)
    rising = [(step + 1) / (warm + 1) for step in range(warm)]  # the first step has a rate above 0
    falling = [(1 + math.cos(math.pi * k / (total - warm))) / 2 for k in range(total - warm + 1)]
    assert rates(WarmupCosine, total, warmup=warmup) == pytest.approx([*rising, *falling, 0])


def test_the_polynomial_falls_to_zero_at_the_end():
    expected = [(1 - step / 5) ** 0.9 for step in range(6)]
    assert rates(Poly, 5) == pytest.approx([*expected, 0])
    with pytest.raises(UserError, match="warmup"):
        rates(WarmupCosine, 5, warmup=1.0)


def rates(schedule, total, **options):
    """Shares of the base rate at the steps of a run, at its end and one step later."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    scheduler, found = schedule(optimizer, total, **options), []
    for _ in range(total + 2):
        found.append(optimizer.param_groups[0]["lr"] / 2)
        optimizer.step()
        scheduler.step()
    return found


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
