"""Select a part of a network's width: the same elements in all parameters that share an axis."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from lgx.architectures import Architecture
from lgx.architectures.axes import Axis, ElementChoice, gathered
from lgx.architectures.parameter_axes import axes_of
from lgx.errors import UserError

_WORDS = {"embed": "embed_dim", "heads": "heads", "head": "elements of a head", "hidden": "hidden neurons of the MLP"}


def narrow(
    tensors: Mapping[str, Tensor], source: Architecture, target: Architecture, choose: ElementChoice
) -> dict[str, Tensor]:
    """Select elements of all parameters along the axes that depend on the width.

    Args:
        tensors: Parameters of ``source``; layers may have any number.
        source: The architecture of the parameters.
        target: The architecture that they are selected for. Depth, image size, patch size and classes are not read.
        choose: Chooses the elements of an axis.

    Returns:
        Copies, with the widths of ``target``; fused parts are selected one by one, each with the same indices. The head
        of another kind of network, which has another name, is left out.
    """
    other = () if source.head == target.head else source.head_prefixes
    kept = {name: tensor for name, tensor in tensors.items() if not name.startswith(other)}
    by_head = getattr(source, "heads_per_group", 1) > 1 or source.has_rotary_positions
    narrowed = {}
    for name, tensor in kept.items():
        is_layer = by_head and name.startswith(source.layers)  # positions turn no queries of a pooling
        turned = (_rotary_layout(source), _rotary_layout(target)) if is_layer else (None, None)
        pairs = zip(axes_of(source, name), axes_of(target, name), strict=True)
        axes = [(a and replace(a, turned=turned[0]), b and replace(b, turned=turned[1])) for a, b in pairs]
        narrowed[name] = _narrowed(tensor, name, axes, choose)
    return narrowed


@lru_cache(maxsize=256)
def _rotary_layout(architecture: Architecture) -> tuple[int, int]:
    """How many elements of a head rotary positions turn, the first ones, and the distance of the two of a pair.

    transformers turns ``i`` with ``i + n / 2`` in Llama and most types, and ``2i`` with ``2i + 1`` in Cohere, GLM and
    Ernie. The type's own function ``rotate_half`` tells which, and its frequencies tell n. timm's attentions say which.
    A type that says nothing, such as RoFormer, has (0, 1): its elements are selected one by one.
    """
    if not architecture.has_rotary_positions:
        return 0, 1
    network = architecture.unshared().replace(depth=1).build("meta")
    width = architecture.head_width
    for module in network.modules():
        half = getattr(module, "rotate_half", None)
        if isinstance(half, bool):
            return width, width // 2 if half else 1
    count = next((2 * b.numel() for name, b in network.named_buffers() if name.endswith("inv_freq")), 0)
    modules = sorted({type(module).__module__ for module in network.modules()})
    functions = (getattr(sys.modules[name], "rotate_half", None) for name in modules)
    rotate_half = next(filter(None, functions), None)
    if rotate_half is None or not count:
        return 0, 1
    return count, int(rotate_half(torch.arange(1.0, count + 1))[0].abs()) - 1


def _narrowed(
    tensor: Tensor, name: str, axes: Sequence[tuple[Axis | None, Axis | None]], choose: ElementChoice
) -> Tensor:
    """One parameter, any shape, with the chosen elements of each axis of the width; ``axes``: (source, target)."""
    for dim, (ours, theirs) in enumerate(axes):
        if ours is None or theirs is None or ours == theirs:
            continue
        if theirs.size > ours.size:
            raise UserError(
                f"{name}: the descendant must not be wider, but has {theirs.size} of {_WORDS[ours.kind]}, the source "
                f"{ours.size}; choose a narrower descendant or a larger source"
            )
        tensor = gathered(tensor, dim, ours, theirs, choose)
    return tensor.clone()


def evenly(source: Axis, target: Axis) -> list[int]:
    """Evenly spaced elements of the whole axis, across heads: the rule of weight selection.

    Heads stay whole (:func:`heads_whole`) in networks with groups of heads or with rotary positions. Across their
    heads, elements of queries would meet other elements of keys than in the source.
    """
    return evenly_spaced(source.size, target.size) if source.turned is None else heads_whole(source, target)


def heads_whole(source: Axis, target: Axis) -> list[int]:
    """Evenly spaced elements, of attentions evenly spaced heads, and of heads of another width the same elements.

    Heads that share keys and values are taken from evenly spaced groups, from each the same evenly spaced ones.

    Keeping heads whole keeps the products of queries and keys; across heads, weight selection mixes them. In networks
    with rotary positions, evenly spaced pairs of elements are taken, since positions turn pairs. The narrower heads
    have the angles of these pairs if their number of pairs divides the source's, otherwise similar ones.
    """
    if source.kind not in ("head", "heads"):
        return evenly_spaced(source.size, target.size)
    within = of_head(source, target, lambda parts, count: evenly_spaced(len(parts), count))
    if source.kind == "head":
        return within
    groups = evenly_spaced(source.heads // source.heads_per_group, target.heads // target.heads_per_group)
    of_group = evenly_spaced(source.heads_per_group, target.heads_per_group)
    elements = np.arange(source.size).reshape(-1, source.heads_per_group, source.size // source.heads)
    return list(map(int, elements[groups][:, of_group][:, :, within].flat))


def of_head(source: Axis, target: Axis, choose: Callable[[list[list[int]], int], Sequence[int]]) -> list[int]:
    """Elements of a head, in order: whole pairs of those that rotary positions turn, and others.

    Args:
        source: Axis of the heads, or of one.
        target: The same of the selection.
        choose: Chooses pairs, and the others: (elements of each, their number) -> indices.
    """
    width, wanted = head_widths(source, target)
    turned, step = source.turned or (0, 1)
    turned_in_target, _ = target.turned or (0, 1)
    pairs = [[element, element + step] for element in range(turned) if element // step % 2 == 0]
    others = [[element] for element in range(turned, width)]
    chosen: list[int] = []
    for parts, count in ((pairs, turned_in_target // 2), (others, wanted - turned_in_target)):
        for index in choose(parts, count) if count else ():
            chosen += parts[index]
    return sorted(chosen)


def head_widths(source: Axis, target: Axis) -> tuple[int, int]:
    """Width of a head in the source and in the target."""
    width = source.size // source.heads
    wanted = target.size // target.heads
    if target.heads_per_group > source.heads_per_group or target.groups > source.groups:
        raise UserError(
            f"{source.owner}: the source has {source.heads // source.heads_per_group} groups of "
            f"{source.heads_per_group} heads, the descendant {target.heads // target.heads_per_group} of "
            f"{target.heads_per_group}; it must not have more groups, or more heads in a group"
        )
    if target.heads > source.heads or wanted > width:
        raise UserError(
            f"{source.owner}: the source has {source.heads} heads of width {width}, the descendant {target.heads} of "
            f"{wanted}; it must not have more heads or wider ones"
        )
    return width, wanted


def evenly_spaced(source: int, target: int) -> list[int]:
    """``target`` indices spread evenly over ``range(source)``, strictly increasing (weight selection).

    Xu et al., "Initializing Models with Larger Ones", 2024, Sec. 3 (uniform element selection). The rule is that of the
    paper's code: where ``target`` divides ``source``, every ``source / target``-th element from 0 on; else the rounded
    points of ``linspace(0, source - 1, target)``, so that both ends are taken. (The published file ends its linspace at
    ``source``, which is one past the last index; ours ends at ``source - 1``.) The points are computed in float32, and
    an exact half is rounded to the even neighbor, as ``torch.round`` does.
    """
    if source % target == 0:
        return list(range(0, source, source // target))
    points: list[int] = torch.linspace(0, source - 1, target, dtype=torch.float32).round().long().tolist()
    return points
