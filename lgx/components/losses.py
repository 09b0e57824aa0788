"""Losses as pure functions."""

import torch.nn.functional as F
from torch import Tensor


def distillation_loss(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """Soft cross-entropy between teacher and student predictions (SWS, Eq. 2; Hinton et al., 2015).

    ``CE(softmax(p_s / τ), softmax(p_t / τ))``, mean over the batch. The paper does not scale it by τ²; nor do we.

    Args:
        student: Logits p_s, (B, K); of pixels (B, K, H, W), all of which count, labeled or not.
        teacher: Logits p_t, likewise.
        temperature: τ > 0.

    Returns:
        Scalar, at least the entropy of the teacher's softened prediction.
    """
    return F.cross_entropy(student.float() / temperature, (teacher.float() / temperature).softmax(dim=1))


def feature_divergence(student: Tensor, ancestor: Tensor) -> Tensor:
    """Divergence of a network's class-token features from the ancestor's (TAL, Eq. 4).

    ``KL(softmax(E M) ‖ softmax(E_ancestor))`` over the T features, mean over the batch.

    Args:
        student: Projected features E M, (B, T).
        ancestor: The ancestor's features, (B, T).

    Returns:
        Scalar, at least 0.
    """
    return F.kl_div(_log_shares(ancestor), _log_shares(student), log_target=True, reduction="batchmean")


def official_feature_divergence(
    student: Tensor, ancestor: Tensor, num_classes: int, temperature: float = 3.0
) -> Tensor:
    """The same as TAL's official code has it, which departs from Eq. 4 in four ways.

    ``τ² Σ KL(softmax(E_ancestor / τ) ‖ softmax(E M / τ)) / (B K)``: the arguments change places, a temperature comes
    in, and the sum is divided by the number of logits, which makes it as good as nothing where K is large.

    Args:
        student: Projected features E M, (B, T).
        ancestor: The ancestor's features, (B, T).
        num_classes: K.
        temperature: τ.

    Returns:
        Scalar, at least 0.
    """
    shares = _log_shares(student / temperature), _log_shares(ancestor / temperature)
    total = F.kl_div(*shares, log_target=True, reduction="sum")
    return total * temperature**2 / (len(student) * num_classes)


def _log_shares(features: Tensor) -> Tensor:
    return features.float().log_softmax(dim=-1)
