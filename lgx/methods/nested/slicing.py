"""Order the elements of a ViT by importance, and cut slices of every smaller size from it."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lgx.architectures import ViTArchitecture
from lgx.architectures.axes import Axis, axes_of
from lgx.architectures.forms import fill_buffers
from lgx.artifacts.learngene import WHOLE
from lgx.errors import UserError
from lgx.initialization.width import head_widths
from lgx.methods.weight_subcloning.importance import STREAM, Importance

_SHARE_OF_WHOLE_LAYERS = 0.25
"""Largest share of trained weights in a network of whole layers."""


def ordered(
    tensors: Mapping[str, Tensor], architecture: ViTArchitecture, importance: Importance
) -> tuple[dict[str, Tensor], Tensor]:
    """A network that computes the same, with its most important dimensions, heads and neurons first.

    Heads stay whole. The elements of all heads of an attention have one order, so that networks of narrower heads are
    slices, too. Where positions rotate pairs of elements, the elements of a head keep their order.

    Args:
        tensors: Parameters of the network.
        architecture: The network.
        importance: Importance of its elements.

    Returns:
        The parameters, and where each dimension of the residual stream was before, (D,).

    Raises:
        UserError: If the network has no slices.
    """
    _check_heads(architecture, architecture)

    def order(axis: Axis) -> Tensor:
        if axis.kind not in ("heads", "head"):
            values = importance.elements[STREAM if axis.kind == "embed" else (axis.kind, axis.owner)]
            return values.argsort(descending=True, stable=True)
        heads = axis.heads if axis.kind == "heads" else architecture.num_heads
        by_head = importance.elements["heads", axis.owner].reshape(heads, -1)
        within = by_head.mean(0).argsort(descending=True, stable=True)
        if architecture.has_rotary_positions and axis.owner.startswith(architecture.layers):  # not in a pooling
            within = torch.arange(len(within))
        if axis.kind == "head":
            return within
        first = by_head.mean(1).argsort(descending=True, stable=True) * by_head.shape[1]
        return (first[:, None] + within).flatten()

    found = dict(tensors)
    for name in tensors:
        for dim, axis in enumerate(axes_of(architecture, name)):
            if axis is not None:
                whole = torch.cat([order(axis) + part * axis.size for part in range(axis.parts)])
                found[name] = found[name].index_select(dim, whole.to(found[name].device))
    return found, order(Axis("embed", architecture.embed_dim))


class _Cut(NamedTuple):
    """A slice along one dimension of a parameter.

    Attributes:
        dim: The dimension.
        shape: It holds parts of groups of elements: how many of each.
        groups: Groups of each part that the slice has, from the first on.
        size: Elements of each group, likewise.
    """

    dim: int
    shape: tuple[int, int, int]
    groups: int
    size: int

    def __call__(self, tensor: Tensor) -> Tensor:
        """The slice: a view, or of several parts and narrower heads a copy."""
        parts, _, whole = self.shape
        if parts == 1 and self.size == whole:
            return tensor.narrow(self.dim, 0, self.groups * whole)
        first = self.dim + 1
        divided: Tensor = tensor.unflatten(self.dim, self.shape)
        return divided.narrow(first, 0, self.groups).narrow(first + 1, 0, self.size).flatten(self.dim, first + 1)


class _Part(NamedTuple):
    """Where a parameter of a slice comes from: a parameter of the whole network, its cuts, and a factor."""

    source: str
    cuts: tuple[_Cut, ...]
    factor: float


def sliced(
    tensors: Mapping[str, Tensor],
    whole: ViTArchitecture,
    size: ViTArchitecture,
    layers: Sequence[int],
    *,
    training: bool = False,
) -> dict[str, Tensor]:
    """The parameters of a smaller network as slices of an ordered one; gradients flow into the trained network.

    Weights of linear layers are multiplied by ``sqrt(n / m)`` for m of n inputs, so that their outputs keep their scale
    (Samragh et al., "Weight subcloning", 2023).

    Args:
        tensors: Parameters of the ordered network, and below :data:`~lgx.artifacts.learngene.WHOLE` those that it had
            before training, which a slice has in part (:func:`trained_share`); what others it holds is left out.
        whole: Its architecture.
        size: The smaller network.
        layers: The whole network's layers, those that small slices have first.
        training: Whether the slice is trained as a part of the whole.

    Raises:
        UserError: If it is deeper or wider than the whole, has more heads, wider ones, or a larger MLP; or narrower
            heads and rotary positions.
    """
    found, share = {}, trained_share(whole, size, training)
    for name, part in _plan(whole, size, tuple(sorted(layers[: size.depth]))).items():
        if part.source in tensors:
            tensor, start = tensors[part.source], tensors.get(f"{WHOLE}{part.source}")
            for cut in part.cuts:
                tensor, start = cut(tensor), None if start is None else cut(start)
            if start is not None:
                tensor = torch.lerp(start, tensor, share)
            found[name] = tensor if part.factor == 1 else tensor * part.factor
    return found


def trained_share(whole: ViTArchitecture, size: ViTArchitecture, training: bool = False) -> float:
    """How far a slice's weights are on the way from the ancestor's to the trained ones: 1 − its share of parameters.

    So the whole network keeps the ancestor's weights, and large slices nearly do. After training, a slice of whole
    layers has at most a quarter of the way, since weights between pretrained and trained ones may serve other tasks
    better (Wortsman et al., "Robust fine-tuning of zero-shot models", CVPR 2022). The shares are ours.
    """
    share, whole_layers = _missing(whole, size), size == whole.replace(depth=size.depth)
    return min(share, _SHARE_OF_WHOLE_LAYERS) if whole_layers and not training else share


@lru_cache(maxsize=1024)
def _missing(whole: ViTArchitecture, size: ViTArchitecture) -> float:
    """Share of the whole network's parameters that a slice lacks."""
    return 1 - size.count_parameters() / whole.count_parameters()


@lru_cache(maxsize=1024)
def _plan(whole: ViTArchitecture, size: ViTArchitecture, layers: tuple[int, ...]) -> dict[str, _Part]:
    """Where each parameter of the smaller network comes from, by its name."""
    if size.depth > whole.depth:
        raise UserError(
            f"nested: the descendant has {size.depth} layers, but the learngene has {whole.depth}; choose fewer"
        )
    plan, prefix = {}, size.layers
    for name in size.build("meta").state_dict():
        source = name
        if name.startswith(prefix):
            number, _, rest = name.removeprefix(prefix).partition(".")
            source = f"{prefix}{layers[int(number)]}.{rest}"
        cuts, factor = [], 1.0
        for dim, (ours, theirs) in enumerate(zip(axes_of(whole, source), axes_of(size, name), strict=True)):
            if ours is None or theirs is None or (ours.size, ours.heads) == (theirs.size, theirs.heads):
                continue
            cuts.append(_cut(dim, ours, theirs))
            if name.endswith("weight") and dim == 1:
                factor = sqrt(ours.size / theirs.size)
        plan[name] = _Part(source, tuple(cuts), factor)
    _check_heads(whole, size)
    return plan


def _check_heads(whole: ViTArchitecture, size: ViTArchitecture) -> None:
    """Refuse attentions whose heads are divided, and other angles of rotary positions, those of narrower heads."""
    joined = axes_of(whole, f"{whole.layers}0.attn.proj.weight")[1]
    if joined is not None and joined.parts > 1:
        raise UserError(
            f"nested: {whole.form} has differential attention, which cannot be sliced; choose another ancestor"
        )
    head = whole.embed_dim // whole.num_heads
    if whole.has_rotary_positions and size.embed_dim != head * size.num_heads:
        heads = min(max(1, size.embed_dim // head), whole.num_heads)
        raise UserError(
            f"nested: {whole.form} has rotary positions, so its slices have heads of {head} dimensions; "
            f"write embed_dim={head * heads},num_heads={heads}"
        )


def skeleton(size: ViTArchitecture, device: torch.device, dtype: torch.dtype, drop_rate: float = 0.0) -> nn.Module:
    """The network of a slice: its parameters have no memory, because they come with each call; its buffers have."""
    with torch.inference_mode(False):  # a validation may build it, and training save its buffers for a backward pass
        network = size.build("meta", drop_rate).to(dtype)
        fill_buffers(network, str(device))
    return network


def _cut(dim: int, ours: Axis, theirs: Axis) -> _Cut:
    if theirs.size > ours.size:
        what = "neurons in an MLP" if ours.kind == "hidden" else "dimensions"
        raise UserError(
            f"nested: the descendant has {theirs.size} {what}, but the learngene has {ours.size}; choose fewer"
        )
    if ours.kind != "heads":
        return _Cut(dim, (ours.parts, 1, ours.size), 1, theirs.size)
    own, wanted = head_widths(ours, theirs)
    return _Cut(dim, (ours.parts, ours.heads, own), theirs.heads, wanted)
