"""Linear expansion of two learngene layers: the start of TLEG."""

from collections.abc import Mapping

import torch
from torch import Tensor

from lgx.architectures import Architecture
from lgx.core.task import Task
from lgx.initialization import Sizes
from lgx.methods.layers import LayerExpansion


class LinearExpansion(LayerExpansion):
    """Compute every layer from two: ``θ_l = θ_B + ((l − 1) / L) θ_A`` for layer l = 1..L.

    L is the descendant's own depth, without limits.

    Xia et al., "Transformer as Linear Expansion of Learngene", AAAI 2024, https://arxiv.org/abs/2312.05614

    Args:
        source: Learngene file.
    """

    def sizes(self) -> Sizes:
        """Any depth, because both of the learngene's layers are part of each layer, and no more than its width."""
        return Sizes.within(self.loaded.architecture).deeper()

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The two layers, expanded to the descendant's depth."""
        return expand_linearly(self.tensors_for(architecture), architecture.depth, architecture.layers)


def least_squares_shares(depth: int) -> Tensor:
    """Share of each layer of a network in the θ_B and θ_A that fit its layers best.

    The fit minimizes ``Σ_l ‖θ_l − θ_B − ((l − 1) / L) θ_A‖²`` over the network's L layers, which has a closed form: the
    pseudo-inverse of the matrix with rows ``(1, (l − 1) / L)``. So θ_A is the slope of the regression line of every
    parameter over the layers, and θ_B its value at the first layer. Of a single layer θ_B is a copy, and θ_A is 0.

    Returns:
        Rows for θ_B and θ_A, (2, L), float64.
    """
    positions = torch.arange(depth, dtype=torch.float64) / depth
    shares: Tensor = torch.linalg.pinv(torch.stack([torch.ones_like(positions), positions], dim=1))
    return shares


def expand_linearly(learned: Mapping[str, Tensor], depth: int, prefix: str = "blocks.") -> dict[str, Tensor]:
    """Parameters of a whole network from θ_B, θ_A and the parameters outside the layers; differentiable.

    Args:
        learned: ``<prefix>0.*`` is θ_B, the first layer of every descendant, ``<prefix>1.*`` is θ_A; all others are
            passed on unchanged.
        depth: Layers of the network, L.
        prefix: Prefix of the names of a layer's parameters, before its number.

    Returns:
        Parameters under the network's names.
    """
    first = f"{prefix}0."
    slope = f"{prefix}1."
    expanded = {name: tensor for name, tensor in learned.items() if not name.startswith(prefix)}
    for name, base in learned.items():
        if name.startswith(first):
            short = name.removeprefix(first)
            for layer in range(depth):
                expanded[f"{prefix}{layer}.{short}"] = torch.add(base, learned[slope + short], alpha=layer / depth)
    return expanded
