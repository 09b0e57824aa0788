"""TLEG: a transformer as the linear expansion of two layers."""

from collections.abc import Mapping
from typing import Any

from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.func import functional_call

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import Learngene
from lgx.errors import UserError
from lgx.methods.distillation.method import Distill
from lgx.methods.tleg.initializer import SLOPE, expand_linearly


class TLEG(Distill):
    """Learn two layers by distilling an ancestor into an auxiliary net whose every layer is computed from them.

    Xia et al., "Transformer as Linear Expansion of Learngene", 2024: ``θ_l = θ_B + ((l − 1) / L) θ_A`` for layer
    l = 1..L, for every parameter of a layer, norms and biases included. Only θ_A, θ_B, patch embedding, position
    embedding, class token, norm and head are trained. SWS and LSAMD, which compare with it, give nothing but the
    formula; ours are the loss, Eq. 4 of SWS as in :class:`Distill`, and the start: θ_B at timm's random start, θ_A
    likewise but with norms of weight 0, so that the norms of all layers begin at 1.

    Args:
        kwargs: Arguments of ``Distill`` and of every method. The depth in ``arch``, L, is the auxiliary net's.
    """

    architecture: ViTArchitecture

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    @property
    def method(self) -> str:
        """``tleg``."""
        return "tleg"

    def make_architecture(self, architecture: ViTArchitecture) -> ViTArchitecture:
        """The auxiliary net.

        Raises:
            UserError: If it has one layer, which θ_A has no part in, or shares weights otherwise.
        """
        if architecture.depth < 2:
            raise UserError("model.arch: the auxiliary net has one layer, and two are learned; give it more")
        if architecture.stages is not None:
            raise UserError("model.arch: TLEG computes every layer from two, without stages; leave out stages")
        return architecture

    def build_network(self) -> nn.Module:
        """The two layers and what is not a layer, at their random start."""
        return LinearlyExpandedViT(self.architecture, self.drop_path_rate)

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """θ_B as layer 0, θ_A as layer 1, and all that is not a layer."""
        return Learngene(self.method, self.architecture, dict(state), ancestor=self.ancestor or "")


class LinearlyExpandedViT(VisionTransformer):
    """A ViT of L layers that holds the parameters of two: ``blocks.0`` is θ_B, ``blocks.1`` is θ_A.

    Images (B, C, H, W) -> logits (B, K). Each call computes the layers anew, so gradients are exact and sum over them.

    Args:
        architecture: The whole network.
        drop_path_rate: Stochastic depth of its last layer.
    """

    def __init__(self, architecture: ViTArchitecture, drop_path_rate: float = 0.0) -> None:
        super().__init__(**architecture.replace(depth=2).timm_args())
        self.depth = architecture.depth
        # In a tuple it is no submodule: nobody shall train, save or move the shapes that it consists of.
        self._whole = (architecture.build("meta", drop_path_rate),)
        for name, parameter in self.named_parameters():
            if name.startswith(SLOPE) and ".norm" in name:
                nn.init.zeros_(parameter)

    def forward(self, images: Tensor) -> Tensor:  # type: ignore[override]  # timm's also takes a mask
        """Logits of the whole network."""
        (whole,) = self._whole
        if whole.training != self.training:  # what is no submodule must be told
            whole.train(self.training)
        parameters = expand_linearly(dict(self.named_parameters()), self.depth)
        logits: Tensor = functional_call(whole, parameters, (images,))
        return logits
