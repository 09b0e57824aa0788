"""TLEG's auxiliary net: a ViT whose layers are computed from two."""

from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.func import functional_call

from lgx.architectures import ViTArchitecture
from lgx.methods.tleg.initializer import SLOPE, expand_linearly


class LinearlyExpandedViT(VisionTransformer):
    """A ViT of L layers that holds the parameters of two: ``blocks.0`` is θ_B, ``blocks.1`` is θ_A.

    Images (B, C, H, W) -> logits (B, K). Each call computes the layers again; the
    gradients of the two layers sum over all of them.

    Args:
        architecture: The whole network.
        drop_path_rate: Stochastic depth of its last layer.
    """

    def __init__(self, architecture: ViTArchitecture, drop_path_rate: float = 0.0) -> None:
        super().__init__(**architecture.replace(depth=2).timm_args())
        self.depth = architecture.depth
        # A tuple hides it from nn.Module: its parameters have shapes only, and must not be trained, saved or moved.
        self._whole = (architecture.build("meta", drop_path_rate),)
        for name, parameter in self.named_parameters():
            if name.startswith(SLOPE) and ".norm" in name:
                nn.init.zeros_(parameter)

    def forward(self, images: Tensor) -> Tensor:  # type: ignore[override]  # timm's also takes a mask
        """Logits of the whole network."""
        (whole,) = self._whole
        if whole.training != self.training:  # train() does not reach a hidden module
            whole.train(self.training)
        parameters = expand_linearly(dict(self.named_parameters()), self.depth)
        logits: Tensor = functional_call(whole, parameters, (images,))
        return logits
