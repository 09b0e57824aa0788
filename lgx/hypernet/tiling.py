"""Which parameters of an architecture are larger than what a hypernetwork predicts."""

from lgx.hypernet.graph import Graph, is_vocabulary
from lgx.hypernet.hypernet import HypernetConfig


def tiled_parameters(graph: Graph, config: HypernetConfig) -> list[str]:
    """Parameters with more outputs or inputs than ``max_shape``: predictions are repeated to fill them.

    Kernels larger than ``max_shape`` are never tiled: GHN-3 interpolates them, LoGAH predicts them as they are.

    Args:
        graph: The architecture's graph.
        config: The hypernetwork's configuration.

    Returns:
        Names in the graph's order; a norm's weight stands for its bias too.
    """
    most_out, most_in = config.max_shape[:2]
    names = []
    for node in graph.nodes:
        if node.parameter is None:
            continue
        out, inputs = (*node.shape, 1)[:2]
        most = most_out
        if node.head and config.decoder == "conv":  # GHN-3's layer for heads
            most = config.num_classes
        if is_vocabulary(node) and config.vocab_size is not None:  # rows of their own
            most = config.vocab_size
        if out > most or inputs > most_in:
            names.append(node.parameter)
    return names
