"""Expansion of a learngene's layers into those of a descendant."""

from functools import cached_property

from torch import Tensor

from lgx.architectures import Architecture, vit_only
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.errors import UserError
from lgx.initialization import Initializer, Origin
from lgx.methods.registry import find_spec, initializer_class, specs


class LayerExpansion(Initializer):
    """An initializer that makes the layers of a descendant from those of a learngene file.

    Patch embedding, position embedding, class token, norm and head come along. It expands the learngenes of every
    method whose spec names it as the default initializer.

    Args:
        source: Learngene file.
    """

    def __init__(self, source: str) -> None:
        self.source = source

    @classmethod
    def check_learngene(cls, source: str, method: str, learngene: Learngene | None) -> None:
        """Refuse a source that is not a learngene of a method that it expands."""
        if learngene is None:
            raise UserError(f"{source}: no learngene file; {method} expands the best{SUFFIX} of a run")
        if not cls.expands(learngene.method):
            raise UserError(f"{source}: a learngene of {learngene.method}, not of {method}; leave out --method")

    @classmethod
    def expanded_methods(cls) -> list[str]:
        """Names of the methods whose learngenes it expands."""
        classes = ((spec, initializer_class(spec)) for spec in specs().values())
        return [name for spec, found in classes if found and issubclass(cls, found) for name in spec.names]

    @classmethod
    def expands(cls, method: str) -> bool:
        """Whether it expands the learngenes of a method, which may be a variant with a name of its own."""
        spec = find_spec(method)
        return spec is not None and spec.name in cls.expanded_methods()

    @cached_property
    def loaded(self) -> Learngene:
        """The learngene.

        Raises:
            UserError: If it is of a method that this class does not expand.
        """
        learngene = Learngene.load(self.source)
        if not self.expands(learngene.method):
            raise UserError(
                f"{self.source}: a learngene of {learngene.method}; {type(self).__name__} expands those of "
                f"{' or '.join(self.expanded_methods())}"
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
        """The learngene's tensors, checked against the descendant's layers.

        Raises:
            UserError: If width, heads or MLP differ: only the depth may.
        """
        architecture = vit_only(architecture, self.method)
        own = vit_only(self.loaded.architecture, self.source)
        if (own.embed_dim, own.num_heads, own.mlp_ratio) != (
            architecture.embed_dim, architecture.num_heads, architecture.mlp_ratio,
        ):  # fmt: skip
            raise UserError(
                f"{self.source}: its layers have embed_dim {own.embed_dim}, num_heads {own.num_heads}, mlp_ratio "
                f"{own.mlp_ratio:g}; the descendant has {architecture.embed_dim}, {architecture.num_heads}, "
                f"{architecture.mlp_ratio:g}: only the depth may differ"
            )
        return self.loaded.tensors
