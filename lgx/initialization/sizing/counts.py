"""Parameters and MACs of many sizes of a ViT, computed from a few counted ones."""

from functools import cache
from typing import NamedTuple

import numpy as np

from lgx.architectures import ViTArchitecture
from lgx.architectures.cost import Cost, cost_of

_POINTS = ((1, 1), (1, 2), (2, 2), (2, 4), (3, 3))
"""Widths and hidden widths of the MLP, in heads, that determine the five coefficients."""


class Law(NamedTuple):
    """Cost of a ViT of depth L, width d and hidden width m, for all that is equal otherwise.

    With the width of a head fixed, each weight of a layer has the sizes 1, d, m, d² or d m, and so has everything
    outside the layers. Every product of the forward pass is as large as a weight times the number of tokens, and the
    products of attention are as large as d. Cost is thus ``outside + L inside``, each a sum of five terms.

    Attributes:
        head: Width of a head.
        outside: Coefficients of 1, x, y, x², x y for x = d / head, y = m / head; a row each for parameters and MACs.
        inside: Likewise, for one layer.
    """

    head: int
    outside: np.ndarray
    inside: np.ndarray

    def parts(self, embed_dim: int, mlp_ratio: float) -> tuple[Cost, Cost]:
        """Cost of all that lies outside the layers, and of one layer."""
        terms = _terms(embed_dim / self.head, int(embed_dim * mlp_ratio) / self.head)
        outside, inside = (Cost(*(round(value) for value in row @ terms)) for row in (self.outside, self.inside))
        return outside, inside

    def cost(self, depth: int, embed_dim: int, mlp_ratio: float) -> Cost:
        """Parameters and MACs of a network."""
        outside, inside = self.parts(embed_dim, mlp_ratio)
        return Cost(*(out + depth * layer for out, layer in zip(outside, inside, strict=True)))


@cache
def law_of(like: ViTArchitecture) -> Law:
    """Count ten small networks, and derive the cost of all sizes.

    Args:
        like: Gives all but depth, width and MLP ratio.
    """
    head = like.embed_dim // like.num_heads
    shallow, deep = (
        np.array([
            cost_of(like.replace(depth=depth, embed_dim=x * head, num_heads=x, mlp_ratio=y / x)) for x, y in _POINTS
        ], dtype=float)
        for depth in (1, 2)
    )  # fmt: skip
    system = np.array([_terms(x, y) for x, y in _POINTS])
    inside = np.linalg.solve(system, deep - shallow)
    outside = np.linalg.solve(system, 2 * shallow - deep)
    return Law(head, outside.T, inside.T)


def count(network: ViTArchitecture) -> Cost:
    """Parameters and MACs of a network, from those of one and two of its layers: all of them cost the same."""
    one, two = (cost_of(network.replace(depth=depth)) for depth in (1, 2))
    return Cost(*(a + (network.depth - 1) * (b - a) for a, b in zip(one, two, strict=True)))


def _terms(x: float, y: float) -> np.ndarray:
    return np.array([1, x, y, x * x, x * y])
