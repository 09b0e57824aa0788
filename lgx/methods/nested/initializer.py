"""The start of a descendant from a nested learngene."""

from collections.abc import Collection
from dataclasses import replace

from torch import Tensor

from lgx.architectures import Architecture
from lgx.artifacts.learngene import MAP
from lgx.artifacts.vector_space import Space
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import Front, Sizes
from lgx.methods.layers import LayerExpansion
from lgx.methods.nested.neighbors import NEIGHBOR
from lgx.methods.nested.sizes import parse_size, slice_text
from lgx.methods.nested.slicing import sliced


class NestedSlices(LayerExpansion):
    """A slice of a nested learngene: the first dimensions, heads and neurons of the layers that matter most.

    The larger it is, the nearer its weights are to the ancestor's (:func:`~lgx.methods.nested.slicing.trained_share`):
    a descendant of the ancestor's size is the ancestor.

    Args:
        source: Learngene file of ``lgx fit --model Nested``.
    """

    @property
    def whole(self) -> Architecture:
        """Architecture of the ancestor."""
        return self.loaded.architecture

    def named(self, architecture: Architecture) -> str:
        """The same for every size."""
        return self.method

    @property
    def order(self) -> list[int]:
        """The layers, those that small slices have first."""
        return list((self.loaded.selection or {}).get("layers", ()))

    def sizes(self) -> Sizes:
        """Neither deeper nor wider than the ancestor; whole layers are no better, for narrow ones are trained, too."""
        return replace(Sizes.within(self.whole), prefers_layers=False)

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The parameters of the slice."""
        # Positions, patches and classes stay those of the learngene.
        fixed = {key: getattr(self.whole, key) for key in (*self.whole.shared_keys, "num_classes", "kind")}
        tensors = sliced(self.loaded.tensors, self.whole, architecture.replace(**fixed), self.order)
        return {name: tensor.clone() for name, tensor in tensors.items() if name not in self.whole.tied_names()}

    def source_layers(self, depth: int) -> list[int]:
        """See :class:`~lgx.initialization.Initializer`."""
        return sorted(self.order[:depth])

    def notes(self, architecture: Architecture, taken: Collection[str]) -> tuple[str, ...]:
        """Which layers the slice has."""
        layers = self.source_layers(architecture.depth)
        return (f"layers    {' '.join(map(str, layers))} of the learngene, counted from 0",)


class FamilyMembers(NestedSlices):
    """A network of a family: a slice that is finished for the family's task, head included.

    Args:
        source: Learngene file of ``lgx fit --model Family``.
    """

    def named_size(self, text: str, num_classes: int | None) -> Architecture:
        """See :class:`~lgx.initialization.Initializer`; what the text leaves out is the whole network's."""
        return parse_size(text, self.whole).replace(num_classes=num_classes or self.whole.num_classes)

    def size_text(self, architecture: Architecture) -> str:
        """See :class:`~lgx.initialization.Initializer`."""
        return slice_text(architecture)

    @property
    def front(self) -> Front:
        """Scores of the sizes that the end of the training has measured."""
        scores = (self.loaded.selection or {}).get("front", {})
        by_size = {parse_size(text, self.whole): score for text, score in scores.items()}
        return Front(self.loaded.task.get("metric", "acc"), by_size)


class BackboneMembers(FamilyMembers):
    """An encoder of any size: a slice without a head, whose vectors a map brings into the ancestor's space.

    Args:
        source: Learngene file of ``lgx fit --model Backbones``.
    """

    def named_size(self, text: str, num_classes: int | None) -> Architecture:
        """See :class:`~lgx.initialization.Initializer`; the whole network is refused, because it is not trained."""
        size = super().named_size(text, num_classes)
        if size.replace(num_classes=0) == self.whole:
            raise UserError(
                f"size {text}: is the ancestor's; use {self.loaded.ancestor} itself, or choose a smaller one"
            )
        return size

    @property
    def front(self) -> Front:
        """Scores of the sizes that the end of the training has measured."""
        return super().front._replace(metric=NEIGHBOR)

    def space(self, architecture: Architecture) -> Space:
        """See :class:`~lgx.initialization.Initializer`."""
        weight, bias = (self.loaded.tensors[f"{MAP}{name}"] for name in ("weight", "bias"))
        pooling = (self.loaded.selection or {}).get("pooling", "mean")
        return Space(weight[:, : architecture.embed_dim].clone(), bias, pooling)
