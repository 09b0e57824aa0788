"""The losses by which TAL's hypernetwork learns from an ancestor's features.

Shapes: B examples, K classes, T features.
"""

import torch.nn.functional as F
from torch import Tensor


def feature_divergence(student: Tensor, teacher: Tensor) -> Tensor:
    """Divergence of a student's projected features from the teacher's features (TAL, Eq. 4).

    ``KL(softmax(E M) ‖ softmax(E_anc))`` over the T features, averaged over the batch.

    Args:
        student: Projected features E M, (B, T).
        teacher: Features E_anc of the ancestor, (B, T).

    Returns:
        Scalar, at least 0.
    """
    return F.kl_div(_log_softmax(teacher), _log_softmax(student), log_target=True, reduction="batchmean")


def official_feature_divergence(student: Tensor, teacher: Tensor, num_classes: int, temperature: float = 3.0) -> Tensor:
    """The loss that TAL's official code computes in place of Eq. 4.

    ``τ² Σ KL(softmax(E_anc / τ) ‖ softmax(E M / τ)) / (B K)``. Compared with :func:`feature_divergence`, the two
    arguments are swapped, a temperature is added, and the sum is divided by the number of logits, B K, which makes the
    loss negligible for large K.

    Args:
        student: Projected features E M, (B, T).
        teacher: Features E_anc of the ancestor, (B, T).
        num_classes: K.
        temperature: τ > 0.

    Returns:
        Scalar, at least 0.
    """
    log_probabilities = _log_softmax(student / temperature), _log_softmax(teacher / temperature)
    total = F.kl_div(*log_probabilities, log_target=True, reduction="sum")
    return total * temperature**2 / (len(student) * num_classes)


def _log_softmax(features: Tensor) -> Tensor:
    return features.float().log_softmax(dim=-1)
