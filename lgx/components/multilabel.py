"""Distillation of several labels per example."""

import torch
import torch.nn.functional as F
from torch import Tensor


def multilabel_distillation_loss(
    student: Tensor, teacher: Tensor, temperature: float = 1.0, known: Tensor | None = None
) -> Tensor:
    """The soft cross-entropy of a teacher and a student for several labels, each of which is a yes or no of its own.

    ``BCE(σ(p_s / τ), σ(p_t / τ))``, the mean over the known labels of all examples. A softmax would say that an image
    has exactly one label. The papers on learngenes have no such task; this form is ours. Like the logits' part of Yang
    et al., "Multi-Label Knowledge Distillation", ICCV 2023, https://arxiv.org/abs/2308.06453, it compares label by
    label.

    Args:
        student: Logits p_s, (B, K).
        teacher: Logits p_t, (B, K).
        temperature: τ > 0.
        known: Which labels count, so that this loss and that of the labels are means over the same, (B, K); None: all.

    Returns:
        Scalar. It is at least the mean entropy of the teacher's softened answers, and 0 without a known label.
    """
    student, wanted = student.float() / temperature, (teacher.float() / temperature).sigmoid()
    known = torch.ones_like(wanted) if known is None else known.to(wanted.dtype)
    total = F.binary_cross_entropy_with_logits(student, wanted, known, reduction="sum")
    return total / known.sum().clamp(min=1)
