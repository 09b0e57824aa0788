"""What all expansions of a learngene's layers share."""

from functools import cached_property
from typing import ClassVar

from torch import Tensor

from lgx.architectures.family import Architecture, vit_only
from lgx.artifacts.learngene import Learngene
from lgx.errors import UserError
from lgx.initialization.base import Initializer
from lgx.initialization.origin import Origin


class LayerExpansion(Initializer):
    """An initializer that makes the layers of a descendant from those of a learngene file.

    Patch embedding, position embedding, class token, norm and head come along.

    Args:
        learngene: Learngene file.

    Attributes:
        learned_by: Methods whose learngenes it expands.
    """

    learned_by: ClassVar[tuple[str, ...]]

    def __init__(self, learngene: str) -> None:
        self.learngene = learngene

    @cached_property
    def loaded(self) -> Learngene:
        """The learngene.

        Raises:
            UserError: If it was learned by another method, whose layers mean something else.
        """
        learngene = Learngene.load(self.learngene)
        if learngene.method not in self.learned_by:
            raise UserError(
                f"{self.learngene}: a learngene of {learngene.method}; {type(self).__name__} expands those of "
                f"{' or '.join(self.learned_by)}"
            )
        return learngene

    @property
    def stored_parameters(self) -> int:
        """Parameters of the learngene."""
        return self.loaded.num_parameters

    def origin(self) -> Origin:
        """What the learngene file stores."""
        return Origin.of_learngene(self.loaded)

    def tensors_for(self, architecture: Architecture) -> dict[str, Tensor]:
        """The learngene's tensors, for a descendant whose layers have their shapes.

        Raises:
            UserError: If they have not: only the depth may differ.
        """
        architecture = vit_only(architecture, self.method)
        own = vit_only(self.loaded.architecture, self.learngene)
        if (own.embed_dim, own.num_heads, own.mlp_ratio) != (
            architecture.embed_dim, architecture.num_heads, architecture.mlp_ratio,
        ):  # fmt: skip
            raise UserError(
                f"{self.learngene}: its layers have embed_dim {own.embed_dim}, num_heads {own.num_heads}, mlp_ratio "
                f"{own.mlp_ratio:g}; the descendant has {architecture.embed_dim}, {architecture.num_heads}, "
                f"{architecture.mlp_ratio:g}: only the depth may differ"
            )
        return self.loaded.tensors
