"""The start of a descendant from a learngene of LeTs."""

from collections.abc import Collection
from functools import cached_property

from torch import Tensor

from lgx.architectures import Architecture, ViTArchitecture, vit_only
from lgx.architectures.meta_device import building_on
from lgx.artifacts.learngene import TEMPLATES
from lgx.artifacts.safety import AGAIN
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import Sizes
from lgx.methods.layer_choice.initializer import even_layers
from lgx.methods.layers import LayerExpansion
from lgx.methods.lets.expansion import PAIR, expand, random_matrices


class LearnedTransformation(LayerExpansion):
    """Widen and deepen the learngene with a part of its matrices: the first rows, and evenly spaced layers.

    The paper's code has descendants of the full width alone, and lists their layers by hand; both rules are ours.

    Args:
        source: Learngene file of ``lgx fit --model LeTs``.
    """

    @cached_property
    def whole(self) -> ViTArchitecture:
        """The auxiliary net."""
        narrow, tensors = vit_only(self.loaded.architecture, self.source), self.loaded.tensors
        width = narrow.embed_dim + len(tensors.get(f"{TEMPLATES}embed", ()))
        depth = PAIR * len({name.split(".")[2] for name in tensors if name.startswith(f"{TEMPLATES}mix.")})
        whole = narrow.replace(depth=depth, embed_dim=width, num_heads=width * narrow.num_heads // narrow.embed_dim)
        with building_on("meta"):  # draws nothing
            shapes = {name: matrix.shape for name, matrix in random_matrices(narrow, whole).items()}
        own = {name: tensor.shape for name, tensor in tensors.items() if name.startswith(TEMPLATES)}
        wrong = [name for name in sorted(shapes.keys() | own.keys()) if own.get(name) != shapes.get(name)]
        if wrong or not depth or self.loaded.num_layers != narrow.depth:
            what = wrong[0] if wrong else "a layer"
            raise UserError(f"{self.source}: lacks {what}, or has it in another shape; {AGAIN}")
        return whole

    @property
    def method(self) -> str:
        """The learngene's method."""
        return self.loaded.method

    def named(self, architecture: Architecture) -> str:
        """The same for every size."""
        return self.method

    def sizes(self) -> Sizes:
        """Neither deeper nor wider than the auxiliary net, nor narrower than the learngene."""
        return Sizes.within(self.whole)

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The parameters of the descendant."""
        size, narrow, whole = vit_only(architecture, self.method), vit_only(self.loaded.architecture, ""), self.whole
        head = narrow.embed_dim // narrow.num_heads
        fits = narrow.embed_dim <= size.embed_dim <= whole.embed_dim and size.embed_dim == head * size.num_heads
        if not (fits and size.depth <= whole.depth and size.mlp_ratio == whole.mlp_ratio):
            raise UserError(
                f"{self.source}: makes networks of 1 to {whole.depth} layers and of {narrow.embed_dim} to "
                f"{whole.embed_dim} dimensions, with heads of {head} and mlp_ratio {whole.mlp_ratio:g}"
            )
        kept = {key: getattr(narrow, key) for key in (*size.shared_keys, "num_classes", "kind")}
        return expand(self.loaded.tensors, narrow, size.replace(**kept), whole.depth)

    def notes(self, architecture: Architecture, taken: Collection[str]) -> tuple[str, ...]:
        """Which layers of the auxiliary net the descendant has."""
        layers = even_layers(self.whole.depth, architecture.depth)
        return (f"layers    {' '.join(map(str, layers))} of the auxiliary net, counted from 0",)
