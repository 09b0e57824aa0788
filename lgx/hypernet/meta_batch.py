"""The loss of one training step of a hypernetwork, over a meta-batch of architectures (Knyazev et al., 2021)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lgx.architectures import Architecture
from lgx.hypernet.feature_projection import predict_with_projections
from lgx.hypernet.functional_forward import functional_forward, functional_forward_with_features
from lgx.hypernet.hypernet import Hypernet
from lgx.hypernet.low_rank_tensor import frobenius_norm

Projection = Literal["predicted", "random", "none"]
"""How features are projected to the ancestor's width; see :func:`guided_meta_batch_loss`."""


def meta_batch_loss(
    hypernet: Hypernet,
    architectures: Sequence[Architecture],
    inputs: Tensor,
    loss: Callable[[Tensor], Tensor],
    task_embedding: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Predict the parameters of m architectures, and evaluate the loss of each network on the same inputs.

    Low-rank weights stay factored: their products are never computed.

    Args:
        hypernet: The hypernetwork.
        architectures: The m architectures.
        inputs: Images, (B, C, H, W), or token ids, (B, N).
        loss: Computes one loss, a scalar, or several, (k,), from logits (B, K).
        task_embedding: Task embedding, (T,), if the hypernetwork takes one.

    Returns:
        The mean loss over the architectures, a scalar or (k,), and the mean of Σ ‖W‖_F over the predicted parameters, a
        scalar, which the training penalizes.

    Raises:
        UserError: See :meth:`~lgx.hypernet.hypernet.Hypernet.predict`.
    """
    predicted = hypernet.predict_many(architectures, task_embedding, dense=False)
    losses = [
        loss(functional_forward(architecture, parameters, inputs))
        for architecture, parameters in zip(architectures, predicted, strict=True)
    ]
    return torch.stack(losses).mean(dim=0), _mean_norms(predicted)


def guided_meta_batch_loss(
    hypernet: Hypernet,
    architectures: Sequence[Architecture],
    inputs: Tensor,
    loss: Callable[[Tensor, Tensor], Tensor],
    width: int,
    task_embedding: Tensor | None = None,
    projection: Projection = "predicted",
) -> tuple[Tensor, Tensor]:
    """As :func:`meta_batch_loss`, for a loss that also compares the networks' features with an ancestor's (TAL, Eq. 6).

    Args:
        hypernet: The hypernetwork.
        architectures: The m architectures.
        inputs: Images, (B, C, H, W), or token ids, (B, N).
        loss: Computes one loss, a scalar, or several, (k,), from logits (B, K) and projected features (B, T); see
            :func:`~lgx.hypernet.functional_forward.functional_forward_with_features`.
        width: Width T of the ancestor's features.
        task_embedding: Task embedding, if the hypernetwork takes one.
        projection: ``predicted`` predicts M and counts its norm too, as in the paper; ``random`` creates a new random
            linear layer at each step, as TAL's official code does; ``none`` passes the features unchanged, (B, D).

    Returns:
        See :func:`meta_batch_loss`.

    Raises:
        UserError: See :meth:`~lgx.hypernet.hypernet.Hypernet.predict`.
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
            parameters["projection.weight"] = projections[i]
        elif projection == "random":
            features = nn.Linear(architecture.embed_dim, width, device=inputs.device)(features)
        losses.append(loss(logits, features))
    return torch.stack(losses).mean(dim=0), _mean_norms(predicted)


def _mean_norms(predicted: Sequence[Mapping[str, Tensor]]) -> Tensor:
    norms = [torch.stack([frobenius_norm(p) for p in parameters.values()]).sum() for parameters in predicted]
    return torch.stack(norms).mean()
