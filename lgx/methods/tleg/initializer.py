"""Linear expansion of two learngene layers: the start of TLEG."""

from collections.abc import Mapping

import torch
from torch import Tensor

from lgx.architectures import Architecture
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.methods.layers import LayerExpansion

BASE, SLOPE = "blocks.0.", "blocks.1."
"""Where a learngene keeps its two layers: θ_B, which is the first layer of every descendant, and θ_A."""


class LinearExpansion(LayerExpansion):
    """Compute every layer from two: ``θ_l = θ_B + ((l − 1) / L) θ_A`` for layer l = 1..L.

    L is the descendant's own depth, without limits.

    Xia et al., "Transformer as Linear Expansion of Learngene", AAAI 2024, https://arxiv.org/abs/2312.05614

    Args:
        source: Learngene file.
    """

    @property
    def method(self) -> str:
        """``tleg``."""
        return "tleg"

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The two layers, expanded to the descendant's depth."""
        return expand_linearly(self.tensors_for(architecture), architecture.depth)


def expand_linearly(learned: Mapping[str, Tensor], depth: int) -> dict[str, Tensor]:
    """Parameters of a whole network from θ_B, θ_A and the parameters outside the layers; differentiable.

    Args:
        learned: ``blocks.0.*`` is θ_B, ``blocks.1.*`` is θ_A; all others are passed on unchanged.
        depth: Layers of the network, L.

    Returns:
        Parameters under timm's names.

    Raises:
        UserError: If θ_A lacks a parameter of θ_B.
    """
    expanded = {name: tensor for name, tensor in learned.items() if not name.startswith("blocks.")}
    for name, base in learned.items():
        if name.startswith(BASE):
            short = name.removeprefix(BASE)
            if (slope := learned.get(SLOPE + short)) is None:
                raise UserError(f"tleg: the learngene has {name}, but not {SLOPE}{short}; save it again")
            for layer in range(depth):
                expanded[f"blocks.{layer}.{short}"] = torch.add(base, slope, alpha=layer / depth)
    return expanded
