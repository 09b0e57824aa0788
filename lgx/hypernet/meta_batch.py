"""The loss of one training step of a hypernetwork, over a meta-batch of architectures (Knyazev et al., 2021)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lgx.architectures import Architecture
from lgx.hypernet.functional_forward import functional_forward_with_features
from lgx.hypernet.graph import Convention, Graph, Node, computational_graph
from lgx.hypernet.hypernet import Hypernet, add_class_token
from lgx.hypernet.low_rank_tensor import frobenius_norm

Projection = Literal["predicted", "random", "none"]
"""How features are projected to the ancestor's width; see :func:`meta_batch_loss`."""
_PROJECTION = "projection.weight"
"""Name of the predicted matrix M that projects a network's features to the ancestor's width (TAL, Eq. 4)."""


def meta_batch_loss(
    hypernet: Hypernet,
    architectures: Sequence[Architecture],
    inputs: Tensor,
    loss: Callable[[Tensor, Tensor], Tensor],
    task_embedding: Tensor | None = None,
    projection: Projection = "none",
    width: int = 0,
) -> tuple[Tensor, Tensor]:
    """Predict the parameters of m architectures, and evaluate the loss of each network on the same inputs.

    Low-rank weights stay factored: their products are never computed. The loss may also compare the networks' features
    with an ancestor's (TAL, Eq. 6).

    Args:
        hypernet: The hypernetwork.
        architectures: The m architectures.
        inputs: Images, (B, C, H, W), or token ids, (B, N).
        loss: Computes one loss, a scalar, or several, (k,), from logits (B, K) and features, projected (B, T) or as
            they are (B, D); see :func:`~lgx.hypernet.functional_forward.functional_forward_with_features`.
        task_embedding: Task embedding, (T,), if the hypernetwork takes one.
        projection: ``none`` passes the features unchanged; ``predicted`` predicts M and counts its norm too, as in the
            paper; ``random`` creates a new random linear layer at each step, as TAL's official code does.
        width: Width T of the ancestor's features, for a projection.

    Returns:
        The mean loss over the architectures, a scalar or (k,), and the mean of Σ ‖W‖_F over the predicted parameters, a
        scalar, which the training penalizes.
    """
    projections: list[Tensor] = []
    if projection == "predicted":
        predicted, projections = predict_with_projections(hypernet, architectures, width, task_embedding)
    else:
        predicted = hypernet.predict_many(architectures, task_embedding, dense=False)
    losses = []
    for i, (architecture, parameters) in enumerate(zip(architectures, predicted, strict=True)):
        logits, features = functional_forward_with_features(architecture, parameters, inputs)
        if projection == "predicted":
            features = F.linear(features, projections[i])
            parameters[_PROJECTION] = projections[i]
        elif projection == "random":
            features = nn.Linear(architecture.embed_dim, width, device=inputs.device)(features)
        losses.append(loss(logits, features))
    return torch.stack(losses).mean(dim=0), _mean_norms(predicted)


def _mean_norms(predicted: Sequence[Mapping[str, Tensor]]) -> Tensor:
    """Mean over the networks of their sums of norms, a scalar."""
    norms = [torch.stack([frobenius_norm(p) for p in parameters.values()]).sum() for parameters in predicted]
    return torch.stack(norms).mean()


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
    """
    convention = hypernet.config.convention
    graphs = [computational_graph(architecture, convention) for architecture in architectures]
    graphs += [projection_graph(architecture, width, convention) for architecture in architectures]
    predicted = hypernet.predict_graphs(graphs, task_embedding, dense=False)
    parameters, projections = predicted[: len(architectures)], predicted[len(architectures) :]
    for architecture, tensors in zip(architectures, parameters, strict=True):
        add_class_token(architecture, tensors)
    return parameters, [tensors[_PROJECTION] for tensors in projections]


def projection_graph(architecture: Architecture, width: int, convention: Convention = "msa") -> Graph:
    """The architecture's graph with an additional node M, the only node with a parameter."""
    graph = computational_graph(architecture, convention)
    count = len(graph.nodes)
    norm = max(n for n, node in enumerate(graph.nodes) if node.op == "ln")
    lengths = np.zeros((count + 1, count + 1), dtype=np.int16)
    lengths[:count, :count] = graph.lengths
    to_norm = graph.lengths[:, norm]
    lengths[:count, count] = np.where(to_norm > 0, to_norm + 1, to_norm)
    lengths[norm, count] = 1
    nodes = [replace(node, parameter=None) for node in graph.nodes]
    return Graph((*nodes, Node("conv", _PROJECTION, (width, architecture.embed_dim))), lengths)
