"""LeTs: the training."""

from collections.abc import Mapping
from typing import Any, cast

from torch import Tensor, nn

from lgx.architectures import ViTArchitecture, vit_only
from lgx.artifacts.learngene import Learngene
from lgx.core.schema import check_option
from lgx.errors import UserError
from lgx.methods.computed import ComputedNetwork, computed
from lgx.methods.distillation.method import Distill
from lgx.methods.lets import SPEC
from lgx.methods.lets.initializer import PAIR, expand, random_matrices

_SAFE = "\N{MIDDLE DOT}"
"""Replaces the dot in names of matrices, which modules do not allow."""


class LeTs(Distill):
    """Learn a small network, and matrices that expand it in width and depth, from an ancestor.

    A parameter gets new neurons as combinations of its neurons, ``[W; F W]``, along every axis of the width. Each
    matrix F belongs to the residual stream, to queries, keys or values of an attention, or to an MLP. A layer of the
    auxiliary net mixes two widened layers of the learngene, with coefficients G for each parameter; two successive
    layers share them. All are trained together. Ours are the loss, see :class:`Distill`, and the rule for other numbers
    of layers than the official code's 8 and 16. In that code, class token and positions belong to the auxiliary net and
    have its width. Here they belong to the learngene and are widened.

    Xia et al., "Initializing Variable-sized Vision Transformers from Learngene with Learnable Transformation",
    NeurIPS 2024; official code: https://github.com/eddiexia98/LeTs

    Args:
        narrow_heads: Attention heads of the learngene; they have the width of the heads in ``arch``.
        narrow_depth: Layers of the learngene; an even number.
        kwargs: Arguments of ``Distill`` and of every method; ``arch`` is the auxiliary net's. ``start`` is ``random``.
    """

    spec = SPEC
    plain_network = False

    def __init__(self, narrow_heads: int = 1, narrow_depth: int = 4, **kwargs: Any) -> None:
        super().__init__(start="random", **kwargs)
        whole = vit_only(self.parsed_architecture, "model LeTs")
        if whole.stages is not None:
            raise UserError("model.arch: LeTs does not support shared stages; leave out stages")
        heads, depth = whole.num_heads, whole.depth
        check_option("narrow_heads", narrow_heads, 1 <= narrow_heads <= heads, f"a number of heads, 1 to {heads}")
        fits = narrow_depth >= PAIR and narrow_depth % PAIR == 0 and depth % narrow_depth == 0
        check_option("narrow_depth", narrow_depth, fits, f"an even number that divides the {depth} layers in arch")
        self.narrow_heads, self.narrow_depth = narrow_heads, narrow_depth

    @property
    def narrow(self) -> ViTArchitecture:
        """The learngene's network."""
        whole = vit_only(self.architecture, "model LeTs")
        width = whole.embed_dim // whole.num_heads * self.narrow_heads
        return whole.replace(depth=self.narrow_depth, embed_dim=width, num_heads=self.narrow_heads)

    def random_network(self) -> nn.Module:
        """The narrow network with its matrices."""
        network: Any = self.narrow.build()
        network.sizes = self.narrow, vit_only(self.architecture, "model LeTs")
        for name, tensor in random_matrices(*network.sizes).items():
            network.register_parameter(name.replace(".", _SAFE), nn.Parameter(tensor))
        return cast(nn.Module, computed(network, _Transformed, self.architecture.build("meta", self.drop_rate)))

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """The narrow network, the matrices and the coefficients."""
        tensors = {name.replace(_SAFE, "."): tensor for name, tensor in self.without_projection(state).items()}
        return Learngene(self.method, self.narrow, tensors, ancestor=self.ancestor or "", content="templates")


class _Transformed(ComputedNetwork):
    sizes: tuple[ViTArchitecture, ViTArchitecture]

    def compute(self, learned: Mapping[str, Tensor], layers: bool) -> dict[str, Tensor]:
        """Every layer, computed from two layers of the narrow network."""
        narrow, whole = self.sizes
        tensors = {name.replace(_SAFE, "."): tensor for name, tensor in learned.items()}
        if not layers:
            tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(narrow.layers)}
        return expand(tensors, narrow, whole, whole.depth)
