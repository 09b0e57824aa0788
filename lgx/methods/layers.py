"""Expand a learngene's layers to the layers of a descendant."""

from collections.abc import Collection
from functools import cached_property

from torch import Tensor

from lgx.architectures import Architecture
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.source_names import FINAL_LEARNGENE
from lgx.errors import UserError
from lgx.initialization import Initializer, Origin, Sizes
from lgx.initialization.width import heads_whole, narrow
from lgx.methods.registry import find_spec, initializer_class


class LayerExpansion(Initializer):
    """Base of initializers that expand the layers of a learngene file to a descendant's layers.

    Parameters outside of the layers are copied: embeddings, class token, norm and head. An initializer expands the
    learngenes of every method whose spec names it as the default.

    Args:
        source: Learngene file.
    """

    def __init__(self, source: str) -> None:
        self.source = source

    @property
    def method(self) -> str:
        """The learngene's method, which may be a variant: ``tleg_from_fit``."""
        return self.loaded.method

    @classmethod
    def check_source(cls, source: str, method: str, maker: str | None) -> None:
        """Refuse a source that is not a learngene of a supported method."""
        if maker is None:
            raise UserError(f"{source}: not a learngene file; {method} expands the {FINAL_LEARNGENE} of a run")
        if not cls.expands(maker):
            raise UserError(f"{source}: a learngene of {maker}, not of {method}; leave out --method")

    @classmethod
    def expands(cls, method: str) -> bool:
        """Whether it expands the learngenes of a method or of the method's variant."""
        spec = find_spec(method)
        initializer = initializer_class(spec) if spec else None
        return initializer is not None and issubclass(cls, initializer)

    @cached_property
    def loaded(self) -> Learngene:
        """The learngene."""
        learngene = Learngene.load(self.source)
        self.check_source(self.source, type(self).__name__, learngene.method)
        return learngene

    @property
    def stored_parameters(self) -> int:
        """Parameters of the learngene."""
        return self.loaded.num_parameters

    def origin(self) -> Origin:
        """What the learngene file stores."""
        return Origin.of_learngene(self.loaded)

    def named(self, architecture: Architecture) -> str:
        """The method; with the suffix ``_narrowed`` if the descendant is narrower than the learngene."""
        return f"{self.method}_narrowed" if self.notes(architecture, ()) else self.method

    def notes(self, architecture: Architecture, taken: Collection[str]) -> tuple[str, ...]:
        """A line if the width was selected."""
        source = self.loaded.architecture
        line = f"width     selected from the learngene's layers: {_words(architecture)} of {_words(source)}"
        return () if _width(source) == _width(architecture) else (line,)

    def sizes(self) -> Sizes:
        """At least the learngene's number of layers, at most its width."""
        return Sizes.within(self.loaded.architecture).deeper(self.loaded.num_layers)

    def tensors_for(self, architecture: Architecture) -> dict[str, Tensor]:
        """The learngene's tensors, with the descendant's width.

        The papers' descendants differ in depth only. For a narrower descendant, width is selected before layers are
        expanded: evenly spaced elements as in weight selection (Xu et al., 2024), with whole heads
        (:func:`~lgx.initialization.width.heads_whole`).
        """
        source = self.loaded.architecture
        if _width(architecture) == _width(source):
            return self.loaded.tensors
        return narrow(self.loaded.tensors, source, architecture, heads_whole)


def _width(architecture: Architecture) -> tuple[int, int, int, int, int]:
    """Width, heads, groups of heads, width of a head, hidden neurons."""
    width, heads = architecture.embed_dim, architecture.num_heads
    groups = heads // getattr(architecture, "heads_per_group", 1)
    return width, heads, groups, architecture.head_width, int(width * architecture.mlp_ratio)


def _words(architecture: Architecture) -> str:
    return (
        f"embed_dim {architecture.embed_dim}, num_heads {architecture.num_heads}, mlp_ratio {architecture.mlp_ratio:g}"
    )
