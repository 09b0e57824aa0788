"""The predicted matrix M that projects a network's features to the ancestor's width (TAL, Eq. 4)."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from lgx.architectures import Architecture
from lgx.hypernet.architecture_graph import computational_graph
from lgx.hypernet.graph import Convention, Graph, Node
from lgx.hypernet.hypernet import Hypernet, add_class_token

_NAME = "projection.weight"


def predict_with_projections(
    hypernet: Hypernet, architectures: Sequence[Architecture], width: int, task_embedding: Tensor | None = None
) -> tuple[list[dict[str, Tensor]], list[Tensor]]:
    """Predict the parameters of several architectures, and the projection M of each, as the TAL paper does.

    M is a node after the last norm, next to the head. It is predicted from a second graph in which no other node has a
    parameter. The parameters are therefore exactly those that are predicted without M.

    Args:
        hypernet: The hypernetwork.
        architectures: The m architectures.
        width: Width T of the ancestor's features.
        task_embedding: Task embedding, (T,), if the hypernetwork takes one.

    Returns:
        For each architecture the parameters by name, and M, (T, D). Matrices are
        :class:`~lgx.hypernet.low_rank_tensor.LowRankTensor` if the decoder predicts factors.

    Raises:
        UserError: See :meth:`~lgx.hypernet.hypernet.Hypernet.predict`.
    """
    convention = hypernet.config.convention
    graphs = [computational_graph(architecture, convention) for architecture in architectures]
    graphs += [projection_graph(architecture, width, convention) for architecture in architectures]
    predicted = hypernet.predict_graphs(graphs, task_embedding, dense=False)
    parameters, projections = predicted[: len(architectures)], predicted[len(architectures) :]
    for architecture, tensors in zip(architectures, parameters, strict=True):
        add_class_token(architecture, tensors)
    return parameters, [tensors[_NAME] for tensors in projections]


def projection_graph(architecture: Architecture, width: int, convention: Convention = "msa") -> Graph:
    """The architecture's graph with an additional node M, the only node with a parameter.

    Args:
        architecture: The network.
        width: Width T of the ancestor's features.
        convention: See :func:`~lgx.hypernet.architecture_graph.computational_graph`.

    Raises:
        UserError: See :func:`~lgx.hypernet.architecture_graph.computational_graph`.
    """
    graph = computational_graph(architecture, convention)
    count = len(graph.nodes)
    norm = max(n for n, node in enumerate(graph.nodes) if node.op == "ln")
    distances = torch.zeros(count + 1, count + 1, dtype=graph.distances.dtype)
    distances[:count, :count] = graph.distances
    to_norm = graph.distances[:, norm]
    distances[:count, count] = torch.where(to_norm > 0, to_norm + 1, to_norm)
    distances[norm, count] = 1
    nodes = [replace(node, parameter=None) for node in graph.nodes]
    return Graph((*nodes, Node("conv", _NAME, (width, architecture.embed_dim))), distances)
