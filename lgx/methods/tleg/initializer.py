"""Linear expansion of two learngene layers: the start of TLEG."""

from collections.abc import Mapping

import torch
from torch import Tensor

from lgx.architectures import Architecture, vit_only
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import Sizes
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

    def sizes(self) -> Sizes:
        """Any depth, because both of the learngene's layers are part of each layer, and no more than its width."""
        return Sizes.within(vit_only(self.loaded.architecture, self.source)).deeper()

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The two layers, expanded to the descendant's depth."""
        return expand_linearly(self.tensors_for(architecture), architecture.depth)


def least_squares_shares(depth: int) -> Tensor:
    """Share of each layer of a network in the θ_B and θ_A that fit its layers best.

    The fit minimizes ``Σ_l ‖θ_l − θ_B − ((l − 1) / L) θ_A‖²`` over the network's L layers, which has a closed form: the
    pseudo-inverse of the matrix with rows ``(1, (l − 1) / L)``. So θ_A is the slope of the regression line of every
    parameter over the layers, and θ_B its value at the first layer. Of a single layer θ_B is a copy, and θ_A is 0.

    Returns:
        Rows for θ_B and θ_A, (2, L), float64.
    """
    places = torch.arange(depth, dtype=torch.float64) / depth
    shares: Tensor = torch.linalg.pinv(torch.stack([torch.ones_like(places), places], dim=1))
    return shares


def expand_linearly(learned: Mapping[str, Tensor], depth: int) -> dict[str, Tensor]:
    """Parameters of a whole network from θ_B, θ_A and the parameters outside the layers; differentiable.

    Args:
        learned: ``blocks.0.*`` is θ_B, ``blocks.1.*`` is θ_A; all others are passed on unchanged.
        depth: Layers of the network, L.

    Returns:
        Parameters under timm's names.
    """
    held = [{k.removeprefix(prefix) for k in learned if k.startswith(prefix)} for prefix in (BASE, SLOPE)]
    if lone := sorted(held[0] ^ held[1]) or ["*"] * (not held[0]):
        raise UserError(f"tleg: the learngene lacks {BASE}{lone[0]} or {SLOPE}{lone[0]}; save it again")
    expanded = {name: tensor for name, tensor in learned.items() if not name.startswith("blocks.")}
    for name, base in learned.items():
        if name.startswith(BASE):
            short = name.removeprefix(BASE)
            for layer in range(depth):
                expanded[f"blocks.{layer}.{short}"] = torch.add(base, learned[SLOPE + short], alpha=layer / depth)
    return expanded
