"""Widen and deepen a ViT so that it computes the same function."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from timm.models.eva import EvaBlockPostNorm
from timm.models.vision_transformer import ResPostBlock
from torch import Tensor

from lgx.architectures import ViTArchitecture
from lgx.architectures.axes import Axis, axes_of
from lgx.errors import UserError

Split = Literal["random", "equal"]


def copied_elements(source: Axis, target: Axis) -> list[int]:
    """The source's element that each element of a wider axis copies: the elements in turn, heads as a whole.

    Raises:
        UserError: If the target is narrower, or its heads have another width.
    """
    if target.size < source.size:
        raise UserError(
            f"net2net: the descendant must not be narrower than the source, but has {target.size} elements where the "
            f"source has {source.size}; weight_selection and weight_subcloning start narrower ones"
        )
    own, wanted = source.size // source.heads, target.size // target.heads
    if source.kind in ("head", "heads") and own != wanted:
        raise UserError(f"net2net: the source's heads have width {own}, the descendant's {wanted}; they must be equal")
    return [element % source.size for element in range(target.size)]


def widen(
    tensors: Mapping[str, Tensor], source: ViTArchitecture, target: ViTArchitecture, split: Split
) -> dict[str, Tensor]:
    """Copy elements along the axes that depend on the width; what reads a copied element shares its weight.

    Random shares are drawn from torch's global generator.

    Args:
        tensors: Parameters of ``source`` under timm's names.
        source: Their architecture.
        target: The wider architecture.
        split: How the weights of copies share that of the copied element: ``equal`` parts, or ``random`` ones with the
            same sum, so that the copies learn different things.
    """
    return {name: _widened(tensor, name, source, target, split) for name, tensor in tensors.items()}


def _widened(tensor: Tensor, name: str, source: ViTArchitecture, target: ViTArchitecture, split: Split) -> Tensor:
    axes = list(zip(axes_of(source, name), axes_of(target, name), strict=True))
    for dim, (ours, theirs) in enumerate(axes):
        if ours is None or theirs is None or ours == theirs:
            continue
        copied = torch.tensor(copied_elements(ours, theirs))
        whole = torch.cat([copied + part * ours.size for part in range(ours.parts)])
        tensor = tensor.index_select(dim, whole)
        if dim == 1 and tensor.ndim == 2:  # the input of a linear layer
            tensor = tensor * _shares(copied, tensor.shape[0], split).to(tensor.dtype)
    return tensor.clone()


def _shares(copied: Tensor, rows: int, split: Split) -> Tensor:
    """For each row and element its share of the element that it copies, (rows, elements); the copies' sum is 1."""
    drawn = torch.ones(rows, len(copied)) if split == "equal" else torch.rand(rows, len(copied)) + 0.5
    sums = torch.zeros(rows, int(copied.max()) + 1).index_add_(1, copied, drawn)
    return drawn / sums[:, copied]


def copied_layers(depth: int, deeper: int) -> list[tuple[int, bool]]:
    """For each layer of a deeper network the layer that it copies, and whether it computes what that one does.

    The additional layers are distributed evenly. Each follows the layer that it copies, and adds nothing at first.

    Args:
        depth: Layers of the source.
        deeper: Layers of the descendant.

    Raises:
        UserError: If the descendant is shallower.
    """
    if deeper < depth:
        raise UserError(f"net2net: the source has {depth} layers, the descendant {deeper}; it must not be shallower")
    copied = [layer * depth // deeper for layer in range(deeper)]
    return [(layer, place == 0 or copied[place - 1] != layer) for place, layer in enumerate(copied)]


def deepen(tensors: Mapping[str, Tensor], architecture: ViTArchitecture, deeper: int) -> dict[str, Tensor]:
    """Add layers that compute the identity: copies in which the last module of attention and of MLP is 0.

    These are linear layers, or norms in layers that normalize what they add.

    Args:
        tensors: Parameters under timm's names.
        architecture: Their architecture.
        deeper: Layers of the descendant.
    """
    prefix = architecture.layers
    outputs = _last_modules(tensors, architecture)
    grown = {name: tensor for name, tensor in tensors.items() if not name.startswith(prefix)}
    for place, (layer, is_whole) in enumerate(copied_layers(architecture.depth, deeper)):
        own = f"{prefix}{layer}."
        for name, tensor in tensors.items():
            if name.startswith(own):
                rest = name.removeprefix(own)
                silent = not is_whole and rest.rpartition(".")[0] in outputs
                grown[f"{prefix}{place}.{rest}"] = torch.zeros_like(tensor) if silent else tensor.clone()
    return grown


def _last_modules(tensors: Mapping[str, Tensor], architecture: ViTArchitecture) -> set[str]:
    """The modules of a layer that write to the residual stream: ``attn.proj`` and ``mlp.fc2``, or norms after them."""
    model: Any = architecture.build("meta")
    if isinstance(model.blocks[0], ResPostBlock | EvaBlockPostNorm):
        return {"norm1", "norm2"}
    first = f"{architecture.layers}0."
    found = set()
    for name in tensors:
        if name.startswith(first):
            axes = axes_of(architecture, name)
            kinds = [axis.kind for axis in axes if axis is not None]
            if kinds in (["embed", "heads"], ["embed", "hidden"]):
                found.add(name.removeprefix(first).rpartition(".")[0])
    return found
