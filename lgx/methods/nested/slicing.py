"""Order the elements of a network by importance, and cut slices of every smaller size from it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lgx.architectures import Architecture, name_of
from lgx.architectures.axes import Axis, gathered, input_dim
from lgx.architectures.building import fill_buffers
from lgx.architectures.parameter_axes import axes_of
from lgx.artifacts.learngene import WHOLE
from lgx.errors import UserError
from lgx.initialization.width import head_widths
from lgx.methods.weight_subcloning.importance import STREAM, Importance

_SHARE_OF_WHOLE_LAYERS = 0.25
"""Largest share of trained weights in a network of whole layers."""


def ordered(
    tensors: Mapping[str, Tensor], architecture: Architecture, importance: Importance
) -> tuple[dict[str, Tensor], Tensor]:
    """A network that computes the same, with its most important dimensions, heads and neurons first.

    Heads stay whole, and so do groups of heads that share keys and values. The elements of all heads of an attention
    have one order, so that networks of narrower heads are slices, too. Where positions rotate pairs of elements, the
    elements of a head keep their order.

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
        width = axis.size // axis.heads
        by_head = importance.elements["heads", axis.owner].reshape(-1, width)  # of queries
        within = by_head.mean(0).argsort(descending=True, stable=True)
        if architecture.has_rotary_positions and axis.owner.startswith(architecture.layers):  # not in a pooling
            within = torch.arange(len(within))
        if axis.kind == "head":
            return within
        by_group = by_head.mean(1).reshape(axis.groups or axis.heads, -1)
        heads = by_group.mean(1).argsort(descending=True, stable=True)
        if axis.heads_per_group > 1:
            inner = by_group.argsort(dim=1, descending=True, stable=True)
            heads = (heads[:, None] * axis.heads_per_group + inner[heads]).flatten()
        return (heads[:, None] * width + within).flatten()

    reordered: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        for dim, axis in enumerate(axes_of(architecture, name)):
            if axis is not None:
                tensor = gathered(tensor, dim, axis, axis, lambda part, _: order(part).tolist())
        reordered[name] = tensor
    return reordered, order(Axis("embed", architecture.embed_dim))


class _Part(NamedTuple):
    """Where a parameter of a slice comes from.

    Attributes:
        source: Name of the parameter of the whole network.
        whole: Its shape.
        size: Shape of the view of it that holds the slice; dimensions of parts, heads and elements are apart.
        stride: Strides of this view.
        shape: Shape of the slice.
        factor: What the slice is multiplied by.
        is_dense: Whether the view is contiguous.
    """

    source: str
    whole: tuple[int, ...]
    size: tuple[int, ...]
    stride: tuple[int, ...]
    shape: tuple[int, ...]
    factor: float
    is_dense: bool

    def __call__(self, tensor: Tensor) -> Tensor:
        """The view of a tensor of the whole network."""
        return tensor if self.size == self.whole else tensor.contiguous().as_strided(self.size, self.stride)

    def shaped(self, view: Tensor) -> Tensor:
        """The slice in a tensor of the view's size."""
        return view if self.size == self.shape else view.reshape(self.shape)


def for_slices(parameters: Mapping[str, Tensor], count: int) -> list[dict[str, Tensor]]:
    """The parameters for each of so many slices of a step; the gradients of all are added in few operations."""
    copies: Sequence[Tensor] = _Copies.apply(count, *parameters.values())
    size = len(parameters)
    return [dict(zip(parameters, copies[i * size : (i + 1) * size], strict=True)) for i in range(count)]


class _Copies(torch.autograd.Function):
    """See :func:`for_slices`."""

    @staticmethod
    def forward(ctx: Any, count: int, *parameters: Tensor) -> tuple[Tensor, ...]:
        """All parameters, so many times."""
        ctx.set_materialize_grads(False)
        ctx.count = count
        return tuple(parameter.view_as(parameter) for _ in range(count) for parameter in parameters)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        """The sum of each parameter's gradients; None where no slice has one."""
        size = len(gradients) // ctx.count
        total: dict[int, Tensor] = {}
        for start in range(0, len(gradients), size):
            one = {i: each for i, each in enumerate(gradients[start : start + size]) if each is not None}
            shared = [i for i in one if i in total]
            if shared:
                sums = torch._foreach_add([total[i] for i in shared], [one[i] for i in shared])
                one |= zip(shared, sums, strict=True)
            total |= one
        return None, *map(total.get, range(size))


class _Slices(torch.autograd.Function):
    """The slices of many parameters in few operations; operations take longer to start than to run.

    Views are contiguous together or not, because ``torch._foreach_*`` is one operation only for contiguous tensors.
    """

    @staticmethod
    def forward(
        ctx: Any, parts: Sequence[_Part], starts: Sequence[Tensor] | None, share: float, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        """See :func:`sliced`; ``starts`` are the tensors before training."""
        ctx.set_materialize_grads(False)
        ctx.parts = parts
        ctx.share = None if starts is None else share
        views: Any = [part(tensor) for part, tensor in zip(parts, tensors, strict=True)]
        if starts is not None:
            before = [part(start) for part, start in zip(parts, starts, strict=True)]
            views = torch._foreach_lerp(before, views, share)
        if any(part.factor != 1 for part in parts):
            views = torch._foreach_mul(views, [part.factor for part in parts])
        return tuple(part.shaped(view) for part, view in zip(parts, views, strict=True))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        """Gradients of the whole tensors: zero outside of the slice, None where the slice has none."""
        pairs = [(part, each) for part, each in zip(ctx.parts, gradients, strict=True) if each is not None]
        wholes = [each.new_empty(part.whole) for part, each in pairs]
        if pairs:
            scaled: Any = [each.reshape(part.size) for part, each in pairs]
            if any(part.factor != 1 for part, _ in pairs):
                scaled = torch._foreach_mul(scaled, [part.factor for part, _ in pairs])
            if ctx.share is not None:
                scaled = torch._foreach_mul(scaled, ctx.share)
            torch._foreach_zero_(wholes)
            torch._foreach_copy_([part(whole) for (part, _), whole in zip(pairs, wholes, strict=True)], scaled)
        remaining = iter(wholes)
        return None, None, None, *(None if each is None else next(remaining) for each in gradients)


def sliced(
    tensors: Mapping[str, Tensor],
    whole: Architecture,
    size: Architecture,
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
    slices = {}
    groups = defaultdict[tuple[bool, bool], list[Any]](list)
    for name, part in _plan(whole, size, tuple(sorted(layers[: size.depth]))).items():
        if part.source in tensors:
            tensor = tensors[part.source]
            start = tensors.get(f"{WHOLE}{part.source}")
            if start is None and part.whole == part.shape:
                slices[name] = tensor
            else:
                groups[start is None, part.is_dense].append((name, part, start, tensor))
    share = trained_share(whole, size, training)
    for (is_free, _), group in groups.items():
        names, parts, starts, sources = zip(*group, strict=True)
        slices |= zip(names, _Slices.apply(parts, None if is_free else starts, share, *sources), strict=True)
    return slices | {name: slices[other] for name, other in size.tied_names().items() if other in slices}


def trained_share(whole: Architecture, size: Architecture, training: bool = False) -> float:
    """How far a slice's weights are on the way from the ancestor's to the trained ones: 1 − its share of parameters.

    So the whole network keeps the ancestor's weights, and large slices nearly do. After training, a slice of whole
    layers has at most a quarter of the way, since weights between pretrained and trained ones may serve other tasks
    better (Wortsman et al., "Robust fine-tuning of zero-shot models", CVPR 2022). The shares are ours.
    """
    share = _missing(whole, size)
    whole_layers = size == whole.replace(depth=size.depth)
    return min(share, _SHARE_OF_WHOLE_LAYERS) if whole_layers and not training else share


@lru_cache(maxsize=1024)
def _missing(whole: Architecture, size: Architecture) -> float:
    """Share of the whole network's parameters that a slice lacks."""
    return 1 - size.count_parameters() / whole.count_parameters()


@lru_cache(maxsize=1024)
def _plan(whole: Architecture, size: Architecture, layers: tuple[int, ...]) -> dict[str, _Part]:
    """Where each parameter of the smaller network comes from, by its name."""
    if size.depth > whole.depth:
        raise UserError(
            f"nested: the descendant has {size.depth} layers, but the learngene has {whole.depth}; choose fewer"
        )
    plan = {}
    prefix = size.layers
    network = size.build("meta")
    inputs = {f"{name}.weight": input_dim(module) for name, module in network.named_modules()}
    for name, tensor in size.tensors(network).items():
        source = name
        if name.startswith(prefix):
            number, _, rest = name.removeprefix(prefix).partition(".")
            source = f"{prefix}{layers[int(number)]}.{rest}"
        cuts = []
        shape = list(tensor.shape)
        factor = 1.0
        for dim, (ours, theirs) in enumerate(zip(axes_of(whole, source), axes_of(size, name), strict=True)):
            if ours is None or theirs is None or (ours.size, ours.heads) == (theirs.size, theirs.heads):
                continue
            cuts.append((dim, ours, theirs))
            shape[dim] = ours.parts * ours.size
            if dim == inputs.get(name):
                factor = sqrt(ours.size / theirs.size)
        view = torch.empty(shape, device="meta")
        for cut in reversed(cuts):
            view = _cut(view, *cut)
        plan[name] = _Part(
            source, tuple(shape), tuple(view.shape), view.stride(), tuple(tensor.shape), factor, view.is_contiguous()
        )
    _check_heads(whole, size)
    return plan


def _check_heads(whole: Architecture, size: Architecture) -> None:
    """Refuse attentions whose heads are divided, and other angles of rotary positions, those of narrower heads."""
    _, joined = whole.axes_of_one_layer().get(f"{whole.layers}0.attn.proj.weight", (None, None))
    if joined is not None and joined.parts > 1:
        raise UserError(
            f"nested: {name_of(whole)} has differential attention, which cannot be sliced; choose another ancestor"
        )
    if any(axis and axis.shared for axis in chain(*whole.axes_of_one_layer().values())):
        raise UserError(
            f"nested: a matrix of {name_of(whole)} has queries beside keys and values that they share, which cannot be "
            f"sliced; choose another ancestor"
        )
    head = whole.head_width
    if whole.has_rotary_positions and size.head_width != head:
        heads = min(max(1, size.embed_dim // head), whole.num_heads)
        raise UserError(
            f"nested: {name_of(whole)} has rotary positions, so its slices have heads of {head} dimensions; "
            f"write embed_dim={head * heads},num_heads={heads}"
        )


def slice_network(size: Architecture, device: torch.device, dtype: torch.dtype, drop_rate: float = 0.0) -> nn.Module:
    """The network of a slice: its parameters have no memory, because they come with each call; its buffers have."""
    with torch.inference_mode(False):  # a validation may build it, and training save its buffers for a backward pass
        network = size.build("meta", drop_rate).to(dtype)
        fill_buffers(network, str(device))
    return network


def _cut(view: Tensor, dim: int, ours: Axis, theirs: Axis) -> Tensor:
    """Keep what the smaller network has of one dimension; several parts and narrower heads become dimensions."""
    if theirs.size > ours.size:
        what = "neurons in an MLP" if ours.kind == "hidden" else "dimensions"
        raise UserError(
            f"nested: the descendant has {theirs.size} {what}, but the learngene has {ours.size}; choose fewer"
        )
    width, wanted = head_widths(ours, theirs)
    of_group = ours.heads_per_group, theirs.heads_per_group
    if ours.parts == 1 and (wanted == width or ours.heads == 1) and len({*of_group}) == 1:
        return view.narrow(dim, 0, theirs.size)
    heads = [(ours.heads // of_group[0], theirs.heads // of_group[1]), of_group]
    parts = [(ours.parts, ours.parts)]
    kept = [*heads, *parts, (width, wanted)] if ours.is_by_head else [*parts, *heads, (width, wanted)]
    divided: Tensor = view.unflatten(dim, [count for count, _ in kept])
    for index, (_, count) in enumerate(kept):
        divided = divided.narrow(dim + index, 0, count)
    return divided
