"""Count the parameters and multiply-accumulates of networks that are built without memory."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from lgx.core.flops import flop_counter


@cache
def by_depth(count: Callable[[Any], int], architecture: Any) -> int:
    """What a function counts in a network; if all layers cost the same, from networks of one and of two layers."""
    if architecture.depth < 3 or architecture.shares_layers or not architecture.equal_layers:
        return count(architecture)
    one, two = (count(architecture.replace(depth=depth)) for depth in (1, 2))
    return one + int(architecture.depth - 1) * (two - one)


@cache
def parameters_of(architecture: Any) -> int:
    """Number of parameters; shared ones count once."""
    return sum(p.numel() for p in architecture.build("meta").parameters())


@cache
def macs_of(architecture: Any) -> int:
    """Multiply-accumulates of the forward pass of one example of the largest size."""
    model = architecture.build("meta").eval()
    with torch.no_grad(), flop_counter() as counter:
        model(architecture.example_input())
    return int(counter.get_total_flops()) // 2
