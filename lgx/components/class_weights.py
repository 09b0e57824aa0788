"""Weights of classes in the cross-entropy, so that rare classes count as much as frequent ones."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def balanced_weights(counts: Sequence[int]) -> Tensor:
    """Weights of classes, N / (K n) for n of N examples and K classes that have one; 0 for a class without.

    Their mean over the examples is 1 (scikit-learn's ``balanced``).

    Returns:
        (number of classes,), float32.
    """
    examples = torch.as_tensor(counts, dtype=torch.float32)
    weights = examples.sum() / ((examples > 0).sum() * examples)
    return weights.where(examples > 0, 0.0)


def weighted_label_loss(logits: Tensor, targets: Tensor, weights: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Mean of the smoothed cross-entropy of each example times the weight of its class.

    ``F.cross_entropy`` divides by the batch's own sum of weights, so that the update depends on how the batch is cut.
    It also weights the smoothing term by the other classes' weights, so that naming the rare class for everything can
    be the optimum.

    Args:
        logits: (B, K).
        targets: Class indices (B,), or shares of classes, floating-point, (B, K), whose weight is the mean of their
            classes' weights.
        weights: Weight of each class, (K,).
        label_smoothing: ε in [0, 1].

    Returns:
        Scalar.
    """
    parts = weights * (targets if targets.is_floating_point() else F.one_hot(targets, len(weights)))
    of_examples = parts.sum(dim=1)
    losses = F.cross_entropy(logits, parts / of_examples[:, None], reduction="none", label_smoothing=label_smoothing)
    return (of_examples * losses).mean()
