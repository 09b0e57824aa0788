"""Which dimensions of a network's parameters are the residual stream, attention heads, and hidden neurons.

To select a part of a network's width, one must know which elements of different parameters belong together. The answer
comes from networks built without memory: which dimensions grow with ``embed_dim``, with ``mlp_ratio``, and with the
number of heads. In ViTs, names answer only one question: which side of an attention's projection is the residual
stream. timm calls the projection back to it ``proj``. For networks of transformers see
:mod:`lgx.architectures.hf_structure`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

AxisKind = Literal["embed", "heads", "head", "hidden"]

_OUTPUT, _LATENT, _QUERY = "proj", "latent", "q"
"""timm's names in an attention: the projection back to the residual stream; the learned query of attention pooling and
its projection."""


@dataclass(frozen=True)
class Axis:
    """A dimension of a parameter that depends on the network's width.

    Attributes:
        kind: ``embed``: the residual stream, which all layers share. ``heads``: all heads of one attention, head by
            head. ``head``: the elements of one head, for each of its heads. ``hidden``: the neurons of one MLP.
        size: Number of elements of one part.
        parts: Number of consecutive axes of this size: 3 in a fused projection of queries, keys and values, 2 in a
            projection of keys and values or in a gated MLP.
        owner: Name of the attention or MLP; empty for the residual stream. Axes of one owner and kind are the same.
        heads: Number of heads of ``heads``, else 1.
        groups: Number of groups of these heads; the heads of a group share keys and values. 0: every head is a group.
        is_by_head: Whether the parts of each head lie side by side, so that heads come first, and then their parts.
        shared: Number of parts behind all heads that are smaller: the keys and values that heads of a group share.
        turned: Of an attention whose heads are selected as such, the number of elements of a head that rotary
            positions turn, and the distance of the two elements of a pair. None: any elements may be selected.
    """

    kind: AxisKind
    size: int
    parts: int = 1
    owner: str = ""
    heads: int = 1
    groups: int = 0
    is_by_head: bool = False
    shared: int = 0
    turned: tuple[int, int] | None = None

    @property
    def sections(self) -> list["Axis"]:
        """The axis without what its groups share, and the axis of each of the shared parts."""
        of_groups = replace(self, size=self.size // self.heads_per_group, heads=self.groups, shared=0)
        return [replace(self, shared=0), *[of_groups] * self.shared] if self.shared else [self]

    @property
    def length(self) -> int:
        """Number of elements of all parts."""
        return sum(axis.size * axis.parts for axis in self.sections)

    @property
    def heads_per_group(self) -> int:
        """Number of heads that share keys and values; 1 for an axis of keys or values."""
        return self.heads // (self.groups or self.heads)


Axes = tuple[Axis | None, ...]
"""One entry per dimension; None if it does not depend on the width."""


def renamed(axis: Axis, old: str, new: str) -> Axis:
    """The axis of another layer, whose prefix is ``new`` instead of ``old``."""
    return replace(axis, owner=new + axis.owner.removeprefix(old)) if axis.owner.startswith(old) else axis


ElementChoice = Callable[[Axis, Axis], Sequence[int]]
"""Chooses elements of an axis: (of the source, of the target) -> indices in the source, one per target element.

Both axes describe one part. The indices depend on the axes' kind and owner alone, so that parameters which share the
axis get the same elements.
"""


def gathered(tensor: Tensor, dim: int, source: Axis, target: Axis, choose: ElementChoice) -> Tensor:
    """Select elements of one dimension of a parameter, in each of its parts.

    Args:
        tensor: The parameter.
        dim: The dimension, whose axis is ``source``.
        source: The axis.
        target: The axis of the selection.
        choose: Chooses the elements.
    """
    shared = source.shared or target.shared
    if shared:  # without groups, all parts are equally long
        source, target = (replace(axis, parts=1, shared=shared) for axis in (source, target))
        pieces = zip(tensor.split(_lengths(source), dim), source.sections, target.sections, strict=True)
        return torch.cat([gathered(piece, dim, ours, theirs, choose) for piece, ours, theirs in pieces], dim)
    length = _run_length(source)
    elements = torch.tensor(choose(source, target), device=tensor.device)
    parts = torch.arange(source.parts, device=tensor.device)
    indices = (elements // length * source.parts + parts[:, None]) * length + elements % length  # (parts, elements)
    whole = indices.unflatten(1, (-1, _run_length(target))).transpose(0, 1).flatten()
    return tensor.index_select(dim, whole)


def values_by_part(values: Tensor, axis: Axis) -> Tensor:
    """Values (N,) of all elements of a dimension, for each of its parts, (parts, axis.size)."""
    if axis.shared:
        queries, *shared = values.split(_lengths(axis))
        by_group = [value.reshape(axis.groups, 1, -1).expand(-1, axis.heads_per_group, -1) for value in shared]
        return torch.stack([queries, *(value.flatten() for value in by_group)])
    return values.reshape(-1, axis.parts, _run_length(axis)).transpose(0, 1).flatten(1)


def _run_length(axis: Axis) -> int:
    """Number of consecutive elements that belong to one part."""
    return axis.size // axis.heads if axis.is_by_head else axis.size


def _lengths(axis: Axis) -> list[int]:
    return [section.length for section in axis.sections]


def input_dim(module: nn.Module) -> int | None:
    """The dimension of a linear layer's weight that belongs to its inputs; None for other modules."""
    if isinstance(module, nn.Linear):
        return 1
    return 0 if type(module).__name__ == "Conv1D" else None  # GPT-2's layer in transformers


def read_axes(
    build: Callable[[int, int, float], nn.Module], embed_dim: int, num_heads: int, mlp_ratio: float
) -> dict[str, Axes]:
    """Determine the axes of all parameters by comparing networks of several sizes.

    Args:
        build: Builds the network from its ``embed_dim``, ``num_heads`` and ``mlp_ratio``, on the meta device.
        embed_dim: Width of the network.
        num_heads: Its attention heads.
        mlp_ratio: Hidden width of its MLPs divided by ``embed_dim``.
    """
    model = build(embed_dim, num_heads, mlp_ratio)
    wider = _shapes(build(2 * embed_dim, num_heads, mlp_ratio))
    more_heads = _shapes(build(2 * embed_dim, 2 * num_heads, mlp_ratio))
    ratio = mlp_ratio + 64 if mlp_ratio <= 100 else mlp_ratio / 2  # some MLPs round their neurons up to multiples of 64
    other_mlp = _shapes(build(embed_dim, num_heads, ratio))
    attentions = {name: m for name, m in model.named_modules() if hasattr(m, "num_heads") and hasattr(m, "head_dim")}
    by_name: dict[str, Axes] = {}
    for name, shape in _shapes(model).items():
        axes: list[Axis | None] = []
        for dim, size in enumerate(shape):
            if other_mlp[name][dim] != size:
                axes.append(Axis("hidden", size, owner=_mlp_of(name)))
            elif wider[name][dim] == size:
                axes.append(None)
            elif more_heads[name][dim] == size:
                axes.append(Axis("head", size, owner=_attention_of(name, attentions)))
            else:
                axes.append(_wide_axis(name, dim, size, embed_dim, attentions))
        by_name[name] = tuple(axes)
    return _with_parts(by_name)


def _shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def _mlp_of(name: str) -> str:
    """The module that holds the layer with a parameter: ``blocks.0.mlp`` of ``blocks.0.mlp.fc1.weight``."""
    return name.rsplit(".", 2)[0]


def _attention_of(name: str, attentions: dict[str, nn.Module]) -> str:
    return next((each for each in attentions if name.startswith(f"{each}.")), "")


def _wide_axis(name: str, dim: int, size: int, width: int, attentions: dict[str, nn.Module]) -> Axis:
    """The residual stream, all heads of an attention, or the neurons of a pooling's MLP with its own ratio."""
    owner = _attention_of(name, attentions)
    stream = Axis("embed", width) if size == width else Axis("hidden", size, owner=_mlp_of(name))
    if not owner or "." in name.removeprefix(f"{owner}.").removesuffix(".weight").removesuffix(".bias"):
        return stream  # outside of attentions, or in the MLP of an attention pooling
    attention: Any = attentions[owner]
    layer = name.removeprefix(f"{owner}.").partition(".")[0]
    inner = attention.num_heads * attention.head_dim
    heads = Axis("heads", inner, size // inner, owner, attention.num_heads)
    if layer == _LATENT:
        return heads if isinstance(getattr(attention, _QUERY, None), nn.Identity) else stream
    module = getattr(attention, layer)
    if isinstance(module, nn.Linear):
        is_input = dim == 1
        return heads if is_input == (layer == _OUTPUT) else stream
    pooling_norm = layer == "norm" and hasattr(attention, _LATENT)  # it normalizes the projection's output
    return stream if pooling_norm else heads


def _with_parts(by_name: dict[str, Axes]) -> dict[str, Axes]:
    """Divide the hidden dimensions of each MLP by its neurons: a gated MLP computes two values for each neuron."""
    neurons: dict[str, int] = {}
    for axes in by_name.values():
        for axis in axes:
            if axis is not None and axis.kind == "hidden":
                neurons[axis.owner] = min(axis.size, neurons.get(axis.owner, axis.size))

    def divided(axis: Axis | None) -> Axis | None:
        if axis is None or axis.kind != "hidden":
            return axis
        return replace(axis, size=neurons[axis.owner], parts=axis.size // neurons[axis.owner])

    return {name: tuple(map(divided, axes)) for name, axes in by_name.items()}
