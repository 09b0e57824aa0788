"""TLEG: a transformer as the linear expansion of two layers."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

from torch import Tensor, nn

from lgx.architectures import Architecture
from lgx.artifacts.learngene import Learngene
from lgx.errors import UserError
from lgx.methods.computed import ComputedNetwork, computed
from lgx.methods.distillation.method import Distill
from lgx.methods.tleg import SPEC
from lgx.methods.tleg.initializer import expand_linearly, least_squares_shares


def linearly_expanded(architecture: Architecture, drop_rate: float = 0.0) -> nn.Module:
    """Build a network of L layers that holds the parameters of two: layer 0 is θ_B, layer 1 is θ_A.

    Images (B, C, H, W) or token ids (B, N) -> logits. The vectors of θ_A start at 0, so that norms and scales of all
    layers start at those of θ_B.
    """
    network: Any = architecture.replace(depth=2).build()
    for name, parameter in network.named_parameters():
        if name.startswith(f"{architecture.layers}1.") and parameter.ndim == 1:
            nn.init.zeros_(parameter)
    network.depth = architecture.depth
    whole = architecture.build("meta", drop_rate)
    expanded: nn.Module = computed(network, _LinearlyExpanded, whole, architecture.layers)
    return expanded


class _LinearlyExpanded(ComputedNetwork):
    depth: int

    def compute(self, learned: Mapping[str, Tensor], layers: bool) -> dict[str, Tensor]:
        """Every layer from the two."""
        return expand_linearly(learned, self.depth if layers else 0, self.prefix)


class TLEG(Distill):
    """Learn two layers by distilling an ancestor into an auxiliary net whose every layer is computed from them.

    ``θ_l = θ_B + ((l − 1) / L) θ_A`` for layer l = 1..L and every parameter of a layer, norms and biases included [0].
    Only θ_A, θ_B and the parameters outside of the layers are trained. Ours are the loss, Eq. 4 of SWS as in
    :class:`Distill`, and the start: θ_B at the library's random start, θ_A likewise but with norm weights of 0, so that
    the norms of all layers start at 1.

    [0]: Xia et al., "Transformer as Linear Expansion of Learngene", AAAI 2024, https://arxiv.org/abs/2312.05614

    Args:
        ancestor: The teacher, see :class:`Distill`.
        alpha: Share of the distillation loss, see :class:`Distill`.
        temperature: Temperature of the distillation, see :class:`Distill`.
        start: ``random`` as above. ``fit`` is ours: θ_B and θ_A are the least-squares fit of the formula to the
            ancestor's layers, and everything outside the layers is the ancestor's, see :func:`least_squares_shares`.
        kwargs: Arguments of ``Distill`` and of every method. The depth in ``arch``, L, is the auxiliary net's.
    """

    spec = SPEC
    plain_network = False

    def __init__(self, start: Literal["random", "fit"] = "random", **kwargs: Any) -> None:
        super().__init__(start=start, **kwargs)  # type: ignore[arg-type]

    @cached_property
    def architecture(self) -> Architecture:
        """The auxiliary net."""
        architecture = self.task_architecture
        if architecture.depth < 2:
            raise UserError("model.arch: TLEG learns two layers, but the auxiliary net has one; give it more layers")
        if architecture.shares_layers:
            raise UserError("model.arch: TLEG does not support shared stages; leave out stages")
        return architecture

    def random_network(self) -> nn.Module:
        """The two layers and all parameters outside the layers, at their random start."""
        return linearly_expanded(self.architecture, self.drop_rate)

    def ancestor_shares(self, depth: int) -> Tensor:
        """Share of each ancestor layer in θ_B and θ_A, (2, depth)."""
        return least_squares_shares(depth)

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """θ_B as layer 0, θ_A as layer 1, and all parameters outside the layers."""
        ancestor = self.ancestor or ""
        return Learngene(
            self.method, self.architecture, self.without_projection(state), ancestor=ancestor, content="layers"
        )
