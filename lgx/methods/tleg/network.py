"""TLEG's auxiliary net: a ViT whose layers are computed from two."""

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.func import functional_call

from lgx.architectures import ViTArchitecture
from lgx.methods.tleg.initializer import BASE, SLOPE, expand_linearly

if TYPE_CHECKING:
    from lgx.architectures.forms import ViTNetwork


def linearly_expanded(architecture: ViTArchitecture, drop_path_rate: float = 0.0) -> "ViTNetwork":
    """Build a ViT of L layers that holds the parameters of two: ``blocks.0`` is θ_B, ``blocks.1`` is θ_A.

    Images (B, C, H, W) -> logits (B, K). Each call computes the layers again; the gradients of the two layers sum over
    all of them. The vectors of θ_A start at 0, so that norms and scales of all layers start at those of θ_B.

    Args:
        architecture: The whole network, of any form.
        drop_path_rate: Stochastic depth of its last layer.
    """
    network: Any = architecture.replace(depth=2).build()
    for name, parameter in network.named_parameters():
        if name.startswith(SLOPE) and parameter.ndim == 1:
            nn.init.zeros_(parameter)
    # A subclass of timm's own class: whatever calls the network's methods (features, heads, export) gets all layers.
    network.__class__ = type("LinearlyExpandedViT", (_LinearlyExpanded, type(network)), {})
    network.depth = architecture.depth
    # A tuple hides it from nn.Module: its parameters have shapes only, and must not be trained, saved or moved.
    network._whole = (_Parts(architecture.build("meta", drop_path_rate)),)
    built: ViTNetwork = network
    return built


class _LinearlyExpanded:
    """Runs a network of timm whose layers are computed from two."""

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, K) of the whole network, of images (B, C, H, W)."""
        return self._run("forward", images, True)

    def forward_features(self, images: Tensor) -> Tensor:
        """Normalized tokens of the whole network, (B, P + N, D)."""
        return self._run("forward_features", images, True)

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits (B, K) of tokens (B, P + N, D), or what the head reads, (B, D); no layer is computed for it."""
        return self._run("forward_head", x, False, pre_logits=pre_logits)

    def _run(self: Any, part: str, inputs: Tensor, layers: bool, **options: bool) -> Tensor:
        """Run a method of the whole network, (B, ...) -> (B, ...), with its layers computed from the two."""
        (whole,) = self._whole
        if whole.training != self.training:  # train() does not reach a hidden module
            whole.train(self.training)
        learned = {name: p for name, p in self.named_parameters() if not name.startswith("projection.")}
        parameters = expand_linearly(learned, self.depth if layers else 0)
        for name, buffer in self.named_buffers():  # those of the whole network have no memory
            short = name.removeprefix(BASE)
            places = [name] if short == name else [f"blocks.{layer}.{short}" for layer in range(self.depth)]
            parameters |= dict.fromkeys(places, buffer)
        named = {f"whole.{name}": tensor for name, tensor in parameters.items()}
        found: Tensor = functional_call(whole, named, (part, inputs), options)
        return found


class _Parts(nn.Module):
    """Calls any method of a network, which ``functional_call`` alone does not."""

    def __init__(self, whole: nn.Module) -> None:
        super().__init__()
        self.whole = whole

    def forward(self, part: str, inputs: Tensor, **options: bool) -> Tensor:
        """The result of the network's method, (B, ...) -> (B, ...)."""
        found: Tensor = getattr(self.whole, part)(inputs, **options)
        return found
