"""Vanilla-LG: the last layers of an ancestor."""

from typing import Literal

from torch import Tensor

from lgx.architectures import Architecture
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import Sizes
from lgx.initialization.expansion import take_layers
from lgx.methods.baselines.from_source import FromSource


class VanillaLG(FromSource):
    """The ancestor's last k layers, the rest random (Vanilla-LG).

    They are the descendant's last layers, behind a variable number of randomly initialized ones, as LSAMD's section on
    related work says. ``position: front`` makes them the first ones. Only whole layers are taken: patch embedding,
    position embedding and head stay random, as in the descendants that SWS compares with.

    Wang et al., "Learngene: From Open-World to Your Learning Task", AAAI 2022, https://arxiv.org/abs/2106.06788

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
        layers: How many layers, k.
        position: Their place in the descendant.
    """

    method = "vanilla_lg"

    def __init__(self, source: str, layers: int = 3, position: Literal["front", "back"] = "back") -> None:
        super().__init__(source)
        self.layers, self.position = layers, position

    @property
    def stored_parameters(self) -> int:
        """Parameters of the k layers."""
        depth = self.vit.depth
        last = tuple(f"blocks.{i}." for i in range(depth - self.layers, depth))
        return sum(t.numel() for name, t in self.loaded.tensors.items() if name.startswith(last))

    def sizes(self) -> Sizes:
        """Any depth from that of the taken layers."""
        return Sizes.of_any_depth(self.vit, self.layers)

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The k layers at their place."""
        self.check_heads(architecture)
        depth = self.vit.depth
        if not 1 <= self.layers <= min(depth, architecture.depth):
            raise UserError(
                f"vanilla_lg: layers must be between 1 and {min(depth, architecture.depth)} (the shallower of ancestor "
                f"and descendant), got {self.layers}"
            )
        blocks = {k: v for k, v in self.loaded.tensors.items() if k.startswith("blocks.")}
        taken = take_layers(blocks, list(range(depth - self.layers, depth)))
        shift = architecture.depth - self.layers if self.position == "back" else 0
        return {_shift(name, shift): tensor for name, tensor in taken.items()}


def _shift(name: str, by: int) -> str:
    _, index, rest = name.split(".", 2)
    return f"blocks.{int(index) + by}.{rest}"
