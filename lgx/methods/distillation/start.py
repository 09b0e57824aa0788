"""Starts of a network from its ancestor's layers.

Each layer of the network starts as a linear combination of the ancestor's layers. The method chooses the shares: the
middle layer of a stage, the mean of its layers, or a fit to all layers. All other parameters come from the ancestor.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from lgx.architectures import Architecture, name_of
from lgx.architectures.class_order import class_order, with_class_order
from lgx.artifacts.pretrained import PretrainedNetwork
from lgx.errors import UserError
from lgx.initialization.descendants import Initialization, load_parameters
from lgx.initialization.width import evenly, narrow

StudentStart = Literal["random", "middle", "mean"]


def stage_shares(stages: Sequence[int], depth: int, start: StudentStart) -> Tensor:
    """Share of each ancestor layer in the layer of each stage.

    The stages divide the ancestor's depth in the same proportions as the network's depth. If a border falls within an
    ancestor layer, parts of the layer belong to both stages.

    Args:
        stages: Layers of each stage, front to back.
        depth: Layers of the ancestor, D.
        start: ``middle`` is the layer at the center of the stage's part (the later of two). ``mean`` is the mean of the
            part's layers, each weighted by its share in the part.

    Returns:
        One row for each stage, (M, D), each with the sum 1, float64.
    """
    total = sum(stages)
    shares = torch.zeros(len(stages), depth, dtype=torch.float64)
    begin = 0
    for stage, size in enumerate(stages):
        # In units of 1 / total of an ancestor layer, so that borders are whole numbers.
        first = begin * depth
        last = (begin + size) * depth
        if start == "middle":
            shares[stage, (first + last) // (2 * total)] = 1
        else:
            for layer in range(depth):
                overlap = min(last, (layer + 1) * total) - max(first, layer * total)
                shares[stage, layer] = max(0, overlap) / (last - first)
        begin += size
    return shares


def combine_layers(tensors: Mapping[str, Tensor], prefix: str, shares: Tensor) -> dict[str, Tensor]:
    """Linear combinations of a network's layers, and everything outside the layers.

    Args:
        tensors: Parameters of the network; those of layer i are named ``<prefix><i>.*``.
        prefix: Prefix of the names of layers, e.g. ``blocks.``.
        shares: Share of each of the D layers in each of the M new ones, (M, D).

    Returns:
        Parameters of a network of M layers.
    """
    combined = {name: tensor for name, tensor in tensors.items() if not name.startswith(prefix)}
    first = f"{prefix}0."
    depth = shares.shape[1]
    for short in (name.removeprefix(first) for name in tensors if name.startswith(first)):
        layers = torch.stack([tensors[f"{prefix}{layer}.{short}"] for layer in range(depth)])
        for layer, tensor in enumerate(torch.tensordot(shares, layers.double(), dims=1).to(layers.dtype)):
            combined[f"{prefix}{layer}.{short}"] = tensor
    return combined


def start_from_ancestor(
    network: nn.Module,
    architecture: Architecture,
    ancestor: PretrainedNetwork,
    shares: Tensor,
    class_names: Sequence[str] = (),
) -> Initialization:
    """Give a network the ancestor's layers and all other parameters.

    Of a wider ancestor, evenly spaced elements are taken (:func:`~lgx.initialization.width.evenly`). A ViT's patch
    projection and positions are resampled to the network's image and patch size. The head is taken if kind and number
    of classes agree, and the names of the classes (in any order) if known.

    Args:
        network: The network; parameters that the ancestor lacks stay as they are.
        architecture: Its architecture.
        ancestor: The ancestor.
        shares: Share of each ancestor layer in each of the network's layers, (M, D).
        class_names: Names of the network's classes in index order; empty if unknown.

    Returns:
        The network, and the record of its start.
    """
    large = ancestor.require_architecture("model.start")
    architecture.check_source(large, "model.start")
    tensors: dict[str, Tensor] = ancestor.tensors
    has_other_names = class_names and ancestor.label_names and set(class_names) != set(ancestor.label_names)
    if has_other_names or (large.kind, large.num_classes) != (architecture.kind, architecture.num_classes):
        tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(large.head_prefixes)}
    else:
        tensors = with_class_order(tensors, large, class_order(ancestor.label_names, class_names, "model.ancestor"))
    if large.family == architecture.family:
        tensors = narrow(tensors, large, architecture.unshared(), evenly)
    tensors = architecture.fit_input_sizes(combine_layers(tensors, large.layers, shares), large)
    shapes = {name: tensor.shape for name, tensor in network.state_dict().items()}
    wrong = next((name for name, tensor in tensors.items() if shapes.get(name) != tensor.shape), None)
    if wrong is not None or (large.num_heads != architecture.num_heads and large.embed_dim == architecture.embed_dim):
        raise UserError(
            f"model.start: the layers of ancestor {ancestor.name} ({name_of(large)}) do not fit the trained network "
            f"({name_of(architecture)}){f', first {wrong}' if wrong else ''}: only depth and a smaller width may "
            "differ; choose the ancestor's other sizes (with equal width also its num_heads), or start: random"
        )
    return load_parameters(network, architecture, tensors, sum(tensor.numel() for tensor in ancestor.tensors.values()))
