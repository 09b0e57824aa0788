"""Expanding stage learngenes: SWS, and Simple-LG, which expands the same way."""

from functools import cached_property
from typing import Literal

from torch import Tensor

from lgx.architectures.vit import ViTArchitecture
from lgx.batch import Task
from lgx.errors import UserError
from lgx.expansion import Order, cyclic, random_assigned
from lgx.initializers.base import Initializer
from lgx.learngene import Learngene, take_layers


class StagewiseExpansion(Initializer):
    """Copy each learngene layer to its stage's layers (SWS, Sec. 3.3).

    Xia et al., "Exploring Learngene via Stage-wise Weight Sharing for Initializing Variable-sized Models", 2024. A
    learngene of ``simple_lg`` - the layers of a normally trained shallow network - expands the same way. Patch
    embedding, position embedding, class token, norm and head come along.

    Args:
        learngene: Learngene file.
        strategy: ``cyclic``, or ``random_assigned`` (Table 4, RI).
        order: Which stage grows first under ``cyclic``: order1 or order2 of Table 4.
        seed: Seed of ``random_assigned``.
    """

    def __init__(
        self,
        learngene: str,
        strategy: Literal["cyclic", "random_assigned"] = "cyclic",
        order: Order = "front_mid_last",
        seed: int = 0,
    ) -> None:
        self.learngene, self.strategy, self.order, self.seed = learngene, strategy, order, seed

    @cached_property
    def loaded(self) -> Learngene:
        """The learngene."""
        return Learngene.load(self.learngene)

    @property
    def method(self) -> str:
        """The learngene's method, with the strategy where it is not the default: ``sws``, ``sws_order2``."""
        suffix = "_random_assigned" if self.strategy == "random_assigned" else ""
        if self.strategy == "cyclic" and self.order == "front_last_mid":
            suffix = "_order2"
        return self.loaded.method + suffix

    @property
    def stored_parameters(self) -> int:
        """Parameters of the learngene."""
        return self.loaded.num_parameters

    def __call__(self, architecture: ViTArchitecture, task: Task | None = None) -> dict[str, Tensor]:
        """The learngene's layers, expanded to the descendant's depth."""
        own = self.loaded.architecture
        if (own.embed_dim, own.num_heads, own.mlp_ratio) != (
            architecture.embed_dim, architecture.num_heads, architecture.mlp_ratio,
        ):  # fmt: skip
            raise UserError(
                f"{self.learngene}: its layers have embed_dim {own.embed_dim}, num_heads {own.num_heads}, mlp_ratio "
                f"{own.mlp_ratio:g}; the descendant has {architecture.embed_dim}, {architecture.num_heads}, "
                f"{architecture.mlp_ratio:g}: only the depth may differ"
            )
        stages, depth = self.loaded.num_layers, architecture.depth
        if self.strategy == "random_assigned":
            layers = random_assigned(stages, depth, self.seed)
        else:
            layers = cyclic(stages, depth, self.order)
        return take_layers(self.loaded.tensors, layers)
