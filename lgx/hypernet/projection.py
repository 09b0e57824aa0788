"""The matrix M that carries a predicted network's features to the ancestor's (TAL, Eq. 4)."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from lgx.architectures import Architecture
from lgx.hypernet.graph import Convention, Graph, Node, computational_graph
from lgx.hypernet.hypernet import Hypernet, add_class_token

_NAME = "projection.weight"


def predict_with_projections(
    hypernet: Hypernet, architectures: Sequence[Architecture], width: int, task_embedding: Tensor | None = None
) -> tuple[list[dict[str, Tensor]], list[Tensor]]:
    """Predict all parameters of several architectures and of each the projection M, which the paper has predicted too.

    M is a node of its own behind the last norm, beside the head. It is read from a second graph, in which nothing else
    is predicted, so that the parameters are exactly those that the architecture gets without it.

    Args:
        hypernet: What predicts.
        architectures: The m architectures.
        width: Width T of the ancestor's features.
        task_embedding: Task embedding, where the hypernetwork takes one.

    Returns:
        Of each architecture the parameters under the model's names, and M, (T, D); matrices as
        :class:`~lgx.hypernet.lowrank.LowRankTensor` where the decoder gives factors.
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
    """The architecture's graph with one more node, M, the only one that names a parameter.

    Args:
        architecture: The network.
        width: Width T of the ancestor's features.
        convention: See :func:`~lgx.hypernet.graph.computational_graph`.
    """
    graph = computational_graph(architecture, convention)
    count = len(graph.nodes)
    norm = max(n for n, node in enumerate(graph.nodes) if node.op == "ln")
    distances = torch.zeros(count + 1, count + 1, dtype=graph.distances.dtype)
    distances[:count, :count] = graph.distances
    reached = graph.distances[:, norm]
    distances[:count, count] = torch.where(reached > 0, reached + 1, reached)
    distances[norm, count] = 1
    nodes = [replace(node, parameter=None) for node in graph.nodes]
    return Graph((*nodes, Node("conv", _NAME, (width, architecture.embed_dim))), distances)
