"""Losses as pure functions."""

import torch.nn.functional as F
from torch import Tensor


def distillation_loss(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """Soft cross-entropy between teacher and student predictions (SWS, Eq. 2; Hinton et al., 2015).

    ``CE(softmax(p_s / τ), softmax(p_t / τ))``, mean over the batch. The paper does not scale it by τ²; nor do we.

    Args:
        student: Logits p_s, (B, K).
        teacher: Logits p_t, (B, K).
        temperature: τ > 0.

    Returns:
        Scalar, at least the entropy of the teacher's softened prediction.
    """
    return F.cross_entropy(student.float() / temperature, (teacher.float() / temperature).softmax(dim=-1))
