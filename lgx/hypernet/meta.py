"""The loss of a step over several architectures."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lgx.architectures import Architecture
from lgx.hypernet.execution import execute, execute_with_features
from lgx.hypernet.hypernet import Hypernet
from lgx.hypernet.lowrank import frobenius_norm
from lgx.hypernet.projection import predict_with_projections

Projection = Literal["predicted", "random", "none"]


def meta_losses(
    hypernet: Hypernet,
    architectures: Sequence[Architecture],
    inputs: Tensor,
    loss: Callable[[Tensor], Tensor],
    task_embedding: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Predict the parameters of m architectures, without forming weights, and run the inputs through each.

    Args:
        hypernet: What predicts.
        architectures: The m architectures.
        inputs: Images, (B, C, H, W), or token ids, (B, N).
        loss: Loss of logits (B, K), or several losses (k,).
        task_embedding: Task embedding, (T,), where the hypernetwork takes one.

    Returns:
        Means over the architectures of ``loss`` and of Σ ‖W‖_F over all predicted parameters.
    """
    predicted = hypernet.predict_many(architectures, task_embedding, dense=False)
    losses = [loss(execute(a, parameters, inputs)) for a, parameters in zip(architectures, predicted, strict=True)]
    return torch.stack(losses).mean(dim=0), _mean_norms(predicted)


def guided_losses(
    hypernet: Hypernet,
    architectures: Sequence[Architecture],
    inputs: Tensor,
    loss: Callable[[Tensor, Tensor], Tensor],
    width: int,
    task_embedding: Tensor | None = None,
    projection: Projection = "predicted",
) -> tuple[Tensor, Tensor]:
    """The same with a loss that also sees the networks' features, projected to an ancestor's width.

    Args:
        hypernet: What predicts.
        architectures: The m architectures.
        inputs: Images, (B, C, H, W), or token ids, (B, N).
        loss: Loss, or several losses (k,), of logits (B, K) and projected features (B, T), see
            :func:`~lgx.hypernet.execution.execute_with_features`.
        width: T.
        task_embedding: Task embedding, where the hypernetwork takes one.
        projection: ``predicted`` predicts M and counts it among the norms; ``random`` draws a linear layer anew at
            every step, as TAL's official code does; ``none`` gives the features as they are, (B, D).

    Returns:
        See :func:`meta_losses`.
    """
    projections: list[Tensor] = []
    if projection == "predicted":
        predicted, projections = predict_with_projections(hypernet, architectures, width, task_embedding)
    else:
        predicted = hypernet.predict_many(architectures, task_embedding, dense=False)
    losses = []
    for i, (architecture, parameters) in enumerate(zip(architectures, predicted, strict=True)):
        logits, features = execute_with_features(architecture, parameters, inputs)
        if projection == "predicted":
            features = F.linear(features, projections[i])
            parameters["projection.weight"] = projections[i]
        elif projection == "random":
            features = nn.Linear(architecture.embed_dim, width, device=inputs.device)(features)
        losses.append(loss(logits, features))
    return torch.stack(losses).mean(dim=0), _mean_norms(predicted)


def _mean_norms(predicted: Sequence[Mapping[str, Tensor]]) -> Tensor:
    norms = [torch.stack([frobenius_norm(p) for p in parameters.values()]).sum() for parameters in predicted]
    return torch.stack(norms).mean()
