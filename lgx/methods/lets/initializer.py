"""The start of a descendant from a learngene of LeTs: neurons and layers are added with learned matrices."""

from collections.abc import Collection, Mapping
from functools import cached_property

import torch
from torch import Tensor

from lgx.architectures import Architecture, ViTArchitecture, vit_only
from lgx.architectures.axes import Axis
from lgx.architectures.parameter_axes import axes_of
from lgx.artifacts.learngene import TEMPLATES
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import Sizes
from lgx.methods.layer_choice.initializer import even_layers
from lgx.methods.layers import LayerExpansion

_QKV = ("queries", "keys", "values")  # the projection back reads values
PAIR = 2
"""Layers of the learngene that a layer mixes, and layers that share the coefficients of a mix."""


def _matrix(axis: Axis, part: int, prefix: str) -> str:
    """Name of the matrix that widens one part of an axis: of the residual stream, or of a learngene layer."""
    if axis.kind == "embed":
        return f"{TEMPLATES}embed"
    of = _QKV[part if axis.parts > 1 else -1] if axis.kind == "heads" else axis.kind
    return f"{TEMPLATES}{axis.owner.removeprefix(prefix).partition('.')[0]}.{of}"


def _mix(layer: int, rest: str) -> str:
    """Name of the coefficients with which a layer mixes a parameter of two layers."""
    return f"{TEMPLATES}mix.{layer // PAIR}.{rest}"


def random_matrices(narrow: ViTArchitecture, whole: ViTArchitecture, noise: float = 0.03) -> dict[str, Tensor]:
    """Matrices and coefficients at their start.

    As in the official code, rows of matrices are uniform and sum to 1, and a layer starts as one of its two learngene
    layers, with noise. The code always takes the first; we alternate.
    """
    matrices: dict[str, Tensor] = {}
    for name in narrow.build("meta").state_dict():
        axes = axes_of(narrow, name)
        for ours, theirs in zip(axes, axes_of(whole, name), strict=True):
            if ours is not None and theirs is not None and theirs.size > ours.size:
                for part in range(ours.parts):
                    rows = torch.rand(theirs.size - ours.size, ours.size)
                    matrices.setdefault(_matrix(ours, part, narrow.layers), rows / rows.sum(1, keepdim=True))
        if name.startswith(f"{narrow.layers}0."):
            parts = max((axis.parts for axis in axes if axis is not None), default=1)
            for layer in range(0, whole.depth, PAIR):
                mix = noise * torch.rand(PAIR, parts)
                mix[layer // PAIR % PAIR] = 1
                matrices[_mix(layer, name.removeprefix(f"{narrow.layers}0."))] = mix / mix.sum(0)
    return matrices


def expand(
    tensors: Mapping[str, Tensor], narrow: ViTArchitecture, target: ViTArchitecture, total: int
) -> dict[str, Tensor]:
    """The parameters of a larger network: the first rows of matrices, and evenly spaced layers."""
    prefix = narrow.layers
    expanded = {}
    wide = {k: _widened(k, t, tensors, narrow, target) for k, t in tensors.items() if not k.startswith(TEMPLATES)}
    for name, tensor in wide.items():
        rest = name.removeprefix(f"{prefix}0.")
        if not name.startswith(prefix):
            expanded[name] = tensor
        for index, layer in enumerate(even_layers(total, target.depth) if rest != name else ()):
            first = PAIR * (layer * (narrow.depth // PAIR) // total)
            mix = tensors[_mix(layer, rest)]
            both = torch.stack([wide[f"{prefix}{first + j}.{rest}"].unflatten(0, (mix.shape[1], -1)) for j in (0, 1)])
            expanded[f"{prefix}{index}.{rest}"] = torch.einsum("jp,jp...->p...", mix, both).flatten(0, 1)
    return expanded


def _widened(
    name: str, tensor: Tensor, matrices: Mapping[str, Tensor], narrow: ViTArchitecture, target: ViTArchitecture
) -> Tensor:
    """A parameter with more elements: ``[W; F W]`` along each axis of the width."""
    for dim, (ours, theirs) in enumerate(zip(axes_of(narrow, name), axes_of(target, name), strict=True)):
        if ours is not None and theirs is not None and theirs.size > ours.size:
            parts = []
            for part, piece in enumerate(tensor.chunk(ours.parts, dim)):
                rows = matrices[_matrix(ours, part, narrow.layers)][: theirs.size - ours.size]
                parts += [piece, torch.tensordot(rows, piece, ([1], [dim])).movedim(0, dim)]
            tensor = torch.cat(parts, dim)
    return tensor


class LearnedTransformation(LayerExpansion):
    """Widen and deepen the learngene with a part of its matrices: the first rows, and evenly spaced layers.

    The paper's code has descendants of full width only, and lists their layers by hand; both rules are ours.

    Args:
        source: Learngene file of ``lgx fit --model LeTs``.
    """

    @cached_property
    def whole(self) -> ViTArchitecture:
        """The auxiliary net."""
        narrow = vit_only(self.loaded.architecture, self.source)
        tensors = self.loaded.tensors
        width = narrow.embed_dim + len(tensors.get(f"{TEMPLATES}embed", ()))
        depth = PAIR * len({name.split(".")[2] for name in tensors if name.startswith(f"{TEMPLATES}mix.")})
        return narrow.replace(depth=depth, embed_dim=width, num_heads=width * narrow.num_heads // narrow.embed_dim)

    def named(self, architecture: Architecture) -> str:
        """The same for every size."""
        return self.method

    def sizes(self) -> Sizes:
        """At most the depth and width of the auxiliary net, and at least the learngene's width."""
        return Sizes.within(self.whole)

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The parameters of the descendant."""
        size = vit_only(architecture, self.method)
        narrow = vit_only(self.loaded.architecture, "")
        whole = self.whole
        head = narrow.embed_dim // narrow.num_heads
        fits = narrow.embed_dim <= size.embed_dim <= whole.embed_dim and size.embed_dim == head * size.num_heads
        if not (fits and size.depth <= whole.depth and size.mlp_ratio == whole.mlp_ratio):
            raise UserError(
                f"{self.source}: initializes networks of 1 to {whole.depth} layers and of {narrow.embed_dim} to "
                f"{whole.embed_dim} dimensions, with heads of {head} and mlp_ratio {whole.mlp_ratio:g}"
            )
        kept = {key: getattr(narrow, key) for key in (*size.shared_keys, "num_classes", "kind")}
        return expand(self.loaded.tensors, narrow, size.replace(**kept), whole.depth)

    def notes(self, architecture: Architecture, taken: Collection[str]) -> tuple[str, ...]:
        """The descendant's layers of the auxiliary net."""
        layers = even_layers(self.whole.depth, architecture.depth)
        return (f"layers    {' '.join(map(str, layers))} of the auxiliary net, counted from 0",)
