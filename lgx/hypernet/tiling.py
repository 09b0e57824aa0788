"""Tiling: predictions are repeated to fill parameters that are larger than ``max_shape`` (Knyazev et al., 2021)."""

import torch
from torch import Tensor

from lgx.hypernet.config import HypernetConfig
from lgx.hypernet.graph import Graph, is_token_embedding


def tile(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Repeat a tensor along each dimension until it covers a shape, then crop it to that shape.

    Args:
        tensor: Has as many dimensions as ``shape``.
        shape: The wanted shape.

    Returns:
        A tensor of the wanted shape.
    """
    for dim, (want, have) in enumerate(zip(shape, tensor.shape, strict=True)):
        if want > have:
            whole, rest = divmod(want, have)
            tensor = torch.cat([tensor] * whole + [tensor.narrow(dim, 0, rest)] * (rest > 0), dim)
    return tensor[tuple(slice(size) for size in shape)]


def tiled_parameters(graph: Graph, config: HypernetConfig) -> list[str]:
    """Names of the parameters that are tiled because they have more outputs or inputs than ``max_shape``.

    Kernels that are larger than ``max_shape`` are not tiled: GHN-3 interpolates them, LoGAH predicts their full size.

    Args:
        graph: The architecture's graph.
        config: The hypernetwork's configuration.

    Returns:
        Names in the order of the graph. The name of a norm's weight also stands for its bias.
    """
    most_out, most_in = config.max_shape[:2]
    names = []
    for node in graph.nodes:
        if node.parameter is None:
            continue
        out, inputs = (*node.shape, 1)[:2]
        most = most_out
        if node.head and config.decoder == "conv":  # GHN-3 has a layer of its own for heads
            most = config.num_classes
        if is_token_embedding(node) and config.vocab_size is not None:  # each token has a row of its own
            most = config.vocab_size
        if out > most or inputs > most_in:
            names.append(node.parameter)
    return names
