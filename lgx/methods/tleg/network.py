"""TLEG's auxiliary net: a ViT whose layers are computed from two."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from lgx.architectures import ViTArchitecture
from lgx.methods.computed import ComputedViT, computed
from lgx.methods.tleg.initializer import SLOPE, expand_linearly

if TYPE_CHECKING:
    from lgx.architectures.forms import ViTNetwork


def linearly_expanded(architecture: ViTArchitecture, drop_path_rate: float = 0.0) -> "ViTNetwork":
    """Build a ViT of L layers that holds the parameters of two: ``blocks.0`` is θ_B, ``blocks.1`` is θ_A.

    Images (B, C, H, W) -> logits (B, K). The vectors of θ_A start at 0, so that norms and scales of all layers start at
    those of θ_B.
    """
    network: Any = architecture.replace(depth=2).build()
    for name, parameter in network.named_parameters():
        if name.startswith(SLOPE) and parameter.ndim == 1:
            nn.init.zeros_(parameter)
    network.depth = architecture.depth
    built: ViTNetwork = computed(network, _LinearlyExpanded, architecture.build("meta", drop_path_rate))
    return built


class _LinearlyExpanded(ComputedViT):
    depth: int

    def compute(self, learned: Mapping[str, Tensor], layers: bool) -> dict[str, Tensor]:
        """Every layer from the two."""
        return expand_linearly(learned, self.depth if layers else 0)
