"""Select a part of a network's width: the same elements in all parameters that share an axis."""

from collections.abc import Mapping

import torch
from torch import Tensor

from lgx.architectures import Architecture
from lgx.architectures.axes import Axis, Choice, gathered
from lgx.architectures.base import axes_of
from lgx.errors import UserError

_WORDS = {"embed": "embed_dim", "heads": "heads", "head": "elements of a head", "hidden": "hidden neurons of the MLP"}


def narrow(
    tensors: Mapping[str, Tensor], source: Architecture, target: Architecture, choose: Choice
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
    return {name: _narrowed(tensor, name, source, target, choose) for name, tensor in kept.items()}


def _narrowed(tensor: Tensor, name: str, source: Architecture, target: Architecture, choose: Choice) -> Tensor:
    """One parameter, any shape, with the chosen elements of each axis of the width."""
    pairs = zip(axes_of(source, name), axes_of(target, name), strict=True)
    for dim, (ours, theirs) in enumerate(pairs):
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
    """Evenly spaced elements of the whole axis, across heads: the rule of weight selection."""
    return evenly_spaced(source.size, target.size)


def heads_whole(source: Axis, target: Axis) -> list[int]:
    """Evenly spaced elements, of attentions evenly spaced heads, and of heads of another width the same elements.

    Heads that share keys and values are taken from evenly spaced groups, from each the same evenly spaced ones.

    Keeping heads whole keeps the products of queries and keys; across heads, weight selection mixes them. In networks
    with rotary positions, narrower heads have other angles than the source's heads.
    """
    if source.kind != "heads":
        return evenly_spaced(source.size, target.size)
    widths = head_widths(source, target)
    within = evenly_spaced(*widths)
    groups = evenly_spaced(source.heads // source.heads_per_group, target.heads // target.heads_per_group)
    of_group = evenly_spaced(source.heads_per_group, target.heads_per_group)
    heads = [group * source.heads_per_group + head for group in groups for head in of_group]
    return [head * widths[0] + element for head in heads for element in within]


def head_widths(source: Axis, target: Axis) -> tuple[int, int]:
    """Width of a head in the source and in the target."""
    width, wanted = source.size // source.heads, target.size // target.heads
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
    if target > source:
        raise UserError(f"weight selection takes {target} of {source} elements: the descendant must not be wider")
    if source % target == 0:
        return list(range(0, source, source // target))
    points: list[int] = torch.linspace(0, source - 1, target, dtype=torch.float32).round().long().tolist()
    return points
