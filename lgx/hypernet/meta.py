"""The loss of a step over several architectures."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from lgx.architectures.vit import ViTArchitecture
from lgx.hypernet.hypernet import Hypernet
from lgx.hypernet.lowrank import execute, frobenius_norm


def meta_losses(
    hypernet: Hypernet,
    architectures: Sequence[ViTArchitecture],
    inputs: Tensor,
    loss: Callable[[Tensor], Tensor],
    task_embedding: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Predict the parameters of m architectures, without forming weights, and run the images through each.

    Args:
        hypernet: What predicts.
        architectures: The m architectures.
        inputs: Images, (B, C, H, W).
        loss: Loss of logits (B, K).
        task_embedding: Task embedding, (T,), where the hypernetwork takes one.

    Returns:
        Means over the architectures of ``loss`` and of Σ ‖W‖_F over all predicted parameters.
    """
    losses, norms = [], []
    predicted = hypernet.predict_many(architectures, task_embedding, dense=False)
    for architecture, parameters in zip(architectures, predicted, strict=True):
        losses.append(loss(execute(architecture, parameters, inputs)))
        norms.append(torch.stack([frobenius_norm(parameter) for parameter in parameters.values()]).sum())
    return torch.stack(losses).mean(), torch.stack(norms).mean()
