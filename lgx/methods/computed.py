"""A network whose parameters are computed from a smaller network's."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call


class ComputedNetwork:
    """Mixin for a smaller network's class: run a whole network with parameters computed from the smaller one's.

    All callers of the network's methods (features, heads, export) get the whole network. Each call computes the
    parameters again; gradients reach the smaller network's parameters.
    """

    prefix: str

    def compute(self, learned: Mapping[str, Tensor], layers: bool) -> dict[str, Tensor]:
        """The whole network's parameters; without its layers if no layer is run."""
        raise NotImplementedError

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits of the whole network, of images (B, C, H, W) or token ids (B, N)."""
        return self._run("forward", inputs, True)

    def tokens(self, ids: Tensor) -> Tensor:
        """Features of all tokens of texts (B, N) before the head, (B, N, D)."""
        return self._run("tokens", ids, True)

    def tokens_and_logits(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Features of all tokens, (B, N, D), and logits."""
        tokens, logits = self._run("tokens_and_logits", ids, True)
        return tokens, logits

    def forward_features(self, images: Tensor) -> Tensor:
        """Normalized tokens of the whole network, (B, P + N, D)."""
        return self._run("forward_features", images, True)

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits (B, K) of tokens (B, P + N, D), or the input of the head, (B, D); no layer is computed."""
        return self._run("forward_head", x, False, pre_logits=pre_logits)

    def _run(self: Any, part: str, inputs: Tensor, layers: bool, **options: bool) -> Tensor:
        """Run a method of the whole network, (B, ...) -> (B, ...)."""
        (whole,) = self._whole
        if whole.training != self.training:  # train() does not reach a hidden module
            whole.train(self.training)
        learned = {name: p for name, p in self.named_parameters() if not name.startswith("projection.")}
        parameters = self.compute(learned, layers)
        for name, buffer in self.named_buffers():  # the whole network's parameters have no memory
            short = name.removeprefix(f"{self.prefix}0.")
            depth = len(whole.whole.get_submodule(self.prefix[:-1])) if short != name else 0
            names = [f"{self.prefix}{layer}.{short}" for layer in range(depth)] or [name]
            parameters |= dict.fromkeys(names, buffer)
        named = {f"whole.{name}": tensor for name, tensor in parameters.items()}
        output: Tensor = functional_call(whole, named, (part, inputs), options)
        return output


def computed(network: Any, mixin: type[ComputedNetwork], whole: nn.Module, prefix: str = "blocks.") -> Any:
    """Make a network compute the parameters of another network and run it.

    Args:
        network: The smaller network, whose parameters are trained.
        mixin: How the parameters are computed.
        whole: The network that is run, on the meta device.
        prefix: Prefix of the names of a layer's parameters, before its number.
    """
    network.__class__ = type(mixin.__name__.lstrip("_"), (mixin, type(network)), {})
    # A tuple hides it from nn.Module: its parameters have shapes only, and must not be trained, saved or moved.
    network._whole = (_Parts(whole),)
    network.prefix = prefix
    return network


class _Parts(nn.Module):
    """Calls any method of a network; ``functional_call`` calls only ``forward``."""

    def __init__(self, whole: nn.Module) -> None:
        super().__init__()
        self.whole = whole

    def forward(self, part: str, inputs: Tensor, **options: bool) -> Tensor:
        """The result of the network's method, (B, ...) -> (B, ...)."""
        output: Tensor = getattr(self.whole, part)(inputs, **options)
        return output
