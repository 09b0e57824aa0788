"""Parameters and multiply-accumulates of an architecture."""

from functools import cache
from typing import NamedTuple

from lgx.architectures.base import Architecture


class Cost(NamedTuple):
    """Cost of a network.

    Attributes:
        parameters: Number of parameters; shared parameters count once.
        macs: Multiply-accumulates of the forward pass of one example, which the papers call FLOPs.
    """

    parameters: int
    macs: int


@cache
def cost_of(architecture: Architecture) -> Cost:
    """Count all parameters and all products, attention products included, as SWS and TAL do."""
    return Cost(architecture.count_parameters(), architecture.count_macs())
