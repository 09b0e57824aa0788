"""Descendants that are larger than their source and compute the same function."""

from collections.abc import Collection, Mapping
from typing import Any, Literal

import torch
from timm.models.eva import EvaBlockPostNorm
from timm.models.vision_transformer import ResPostBlock
from torch import Tensor

from lgx.architectures import Architecture, ViTArchitecture, vit_only
from lgx.architectures.axes import Axis, axes_of
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import Sizes
from lgx.methods.baselines.from_source import FromSource

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
    """One parameter, any shape, with copies along the axes that depend on the width."""
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


class Net2Net(FromSource):
    """Grow a smaller network: copy neurons, heads and dimensions, and add layers that change nothing.

    Wider [0, 1]: element i of a wider axis copies element i modulo the source's size, heads as a whole; where a linear
    layer reads copies, their weights add up to the weight of the copied element. The residual stream is copied in the
    same way. Layer norms compute the same if all elements have equally many copies: the function is kept where the
    descendant's width is a multiple of the source's, and approximately otherwise. Deeper [0]: an additional layer is a
    copy whose outputs of attention and MLP start at 0, where [0] uses an identity matrix, which a residual layer has
    without it; [1] copies whole layers, which changes the function.

    [0] adds noise to the shares of copies, so that they learn different things; [1] has equal shares. Ours are drawn
    from [0.5, 1.5] and divided by their sum, which keeps the function and separates the copies; ``equal`` is [1]'s.

    [0]: Chen et al., "Net2Net: Accelerating Learning via Knowledge Transfer", ICLR 2016,
    https://arxiv.org/abs/1511.05641
    [1]: Chen et al., "bert2BERT: Towards Reusable Pretrained Language Models", ACL 2022,
    https://arxiv.org/abs/2110.07143

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
        split: How the copies of an element share its weights: ``random`` or ``equal``.
    """

    method = "net2net"

    def __init__(self, source: str, split: Split = "random") -> None:
        super().__init__(source)
        self.split: Split = split

    def sizes(self) -> Sizes:
        """Neither shallower nor narrower than the source."""
        of_source = self.vit
        free = Sizes.free(of_source)
        widths, ratio = (of_source.embed_dim, free.embed_dim[1]), of_source.mlp_ratio
        return Sizes(of_source.unshared(), (of_source.depth, free.depth[1]), widths, (ratio, ratio))

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The source's parameters, widened, then deepened."""
        of_source = self.vit
        wanted = vit_only(architecture, self.method)
        wider = wanted.replace(depth=of_source.depth, stages=None)
        return deepen(widen(self.loaded.tensors, of_source, wider, self.split), wider, wanted.depth)

    def notes(self, architecture: Architecture, taken: Collection[str]) -> tuple[str, ...]:
        """Whether the descendant computes the source's function."""
        own, wanted = self.vit, vit_only(architecture, self.method)
        if wanted.embed_dim % own.embed_dim == 0:
            return ("function  that of the source",)
        return (f"function  about that of the source: width {wanted.embed_dim} is no multiple of {own.embed_dim}",)
