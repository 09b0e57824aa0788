"""Add neurons and layers to a narrow network with learned matrices.

d: width of an axis of the narrow network, D: of the network that is made.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from lgx.architectures import ViTArchitecture
from lgx.architectures.axes import Axis, axes_of
from lgx.artifacts.learngene import TEMPLATES

_QKV = ("queries", "keys", "values")  # the projection back reads values
PAIR = 2
"""Layers of the learngene that a layer mixes, and layers that share the coefficients of a mix."""


def matrix_of(axis: Axis, part: int, prefix: str) -> str:
    """Name of the matrix that widens one part of an axis: of the residual stream, or of a learngene layer."""
    if axis.kind == "embed":
        return f"{TEMPLATES}embed"
    layer = axis.owner.removeprefix(prefix).partition(".")[0]
    of = _QKV[part if axis.parts > 1 else -1] if axis.kind == "heads" else axis.kind
    return f"{TEMPLATES}{layer}.{of}"


def coefficients_of(layer: int, rest: str) -> str:
    """Name of the coefficients with which a layer mixes a parameter of two layers."""
    return f"{TEMPLATES}mix.{layer // PAIR}.{rest}"


def random_matrices(narrow: ViTArchitecture, whole: ViTArchitecture, noise: float = 0.03) -> dict[str, Tensor]:
    """Matrices and coefficients at their start.

    As in the official code rows of matrices are uniform and sum to 1, and a layer starts as one of its two, with noise;
    there always as the first, here in turn.
    """
    prefix = narrow.layers
    found: dict[str, Tensor] = {}
    for name in narrow.build("meta").state_dict():
        axes, wide = axes_of(narrow, name), axes_of(whole, name)
        for own, their in zip(axes, wide, strict=True):
            if own is not None and their is not None and their.size > own.size:
                for part in range(own.parts):
                    rows = torch.rand(their.size - own.size, own.size)
                    found.setdefault(matrix_of(own, part, prefix), rows / rows.sum(1, keepdim=True))
        number, _, rest = name.removeprefix(prefix).partition(".")
        if name.startswith(prefix) and number == "0":
            parts = next((axis.parts for axis in axes if axis is not None and axis.parts > 1), 1)
            for layer in range(0, whole.depth, PAIR):
                mix = noise * torch.rand(PAIR, parts)
                mix[layer // PAIR % PAIR] = 1
                found[coefficients_of(layer, rest)] = mix / mix.sum(0)
    return found


def expand(
    tensors: Mapping[str, Tensor],
    narrow: ViTArchitecture,
    target: ViTArchitecture,
    layers: Sequence[int],
    total: int,
) -> dict[str, Tensor]:
    """The parameters of a wider and deeper network.

    Args:
        tensors: Parameters of the narrow network, matrices and coefficients.
        narrow: The narrow network.
        target: The network that is made; of the matrices it takes the first rows that it needs.
        layers: Layers of the whole network that it takes, front to back.
        total: Layers of the whole network.
    """
    prefix, found = narrow.layers, {}
    wide = {k: _widened(k, t, tensors, narrow, target) for k, t in tensors.items() if not k.startswith(TEMPLATES)}
    for name, tensor in wide.items():
        if not name.startswith(prefix):
            found[name] = tensor
        elif name.startswith(f"{prefix}0."):
            rest = name.removeprefix(f"{prefix}0.")
            for place, layer in enumerate(layers):
                first = PAIR * (layer * (narrow.depth // PAIR) // total)
                mix, both = tensors[coefficients_of(layer, rest)], [wide[f"{prefix}{first + j}.{rest}"] for j in (0, 1)]
                shape = (-1, *[1] * tensor.ndim)
                mixed = sum(t.unflatten(0, (mix.shape[1], -1)) * c.view(shape) for c, t in zip(mix, both, strict=True))
                found[f"{prefix}{place}.{rest}"] = torch.as_tensor(mixed).flatten(0, 1)
    return found


def _widened(
    name: str, tensor: Tensor, matrices: Mapping[str, Tensor], narrow: ViTArchitecture, target: ViTArchitecture
) -> Tensor:
    """A parameter with more elements: ``[W; F W]`` along each axis of the width."""
    for dim, (own, their) in enumerate(zip(axes_of(narrow, name), axes_of(target, name), strict=True)):
        if own is not None and their is not None and their.size > own.size:
            parts = []
            for part, piece in enumerate(tensor.chunk(own.parts, dim)):
                rows = matrices[matrix_of(own, part, narrow.layers)][: their.size - own.size]
                parts += [piece, torch.tensordot(rows, piece, ([1], [dim])).movedim(0, dim)]
            tensor = torch.cat(parts, dim)
    return tensor
