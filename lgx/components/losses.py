"""Losses as pure functions.

Shapes: B examples, K classes, T features, H and W the height and width of an image.
"""

import torch.nn.functional as F
from torch import Tensor

from lgx.core.batch import IGNORE


def label_loss(logits: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Mean cross-entropy between logits and labels; binary cross-entropy for several labels per example.

    The binary cross-entropy is the mean over the known labels of all examples. Smoothing takes its targets to ε / 2 and
    1 - ε / 2.

    Args:
        logits: (B, K), or (B, K, H, W) for segmentation.
        targets: Class indices (B,); class probabilities, floating-point, (B, K); several labels, integers 0 and 1,
            (B, K); or class indices of pixels (B, H, W). Labels and pixels that are :data:`~lgx.core.batch.IGNORE` are
            left out.
        label_smoothing: ε in [0, 1].

    Returns:
        Scalar; 0 for a batch without known pixels or labels.
    """
    if targets.ndim == 2 and may_be_unknown(targets):
        known = targets != IGNORE
        smoothed = (targets * (1 - label_smoothing) + label_smoothing / 2).to(logits.dtype)
        total = F.binary_cross_entropy_with_logits(logits, smoothed, known.to(logits.dtype), reduction="sum")
        return total / known.sum().clamp(min=1)
    if targets.ndim != 3:
        return F.cross_entropy(logits, targets, label_smoothing=label_smoothing)
    total = F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum", label_smoothing=label_smoothing)
    return total / (targets != IGNORE).sum().clamp(min=1)  # without a labeled pixel: 0, not 0 / 0


def label_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of each example, of each labeled pixel, or of each known label of several.

    Args:
        logits: (B, K), or (B, K, H, W) for segmentation.
        targets: Class indices (B,), class indices of pixels (B, H, W), or several labels (B, K).

    Returns:
        (B,), or (N,) for N labeled pixels or known labels.
    """
    if targets.ndim == 2 and may_be_unknown(targets):
        known = targets != IGNORE
        return F.binary_cross_entropy_with_logits(logits[known], targets[known].to(logits.dtype), reduction="none")
    losses = F.cross_entropy(logits, targets, reduction="none", ignore_index=IGNORE if targets.ndim == 3 else -100)
    return losses[targets != IGNORE] if targets.ndim == 3 else losses


def distillation_loss(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """Soft cross-entropy between the predictions of a teacher and a student (Hinton et al., 2015; SWS, Eq. 2).

    ``CE(softmax(p_s / τ), softmax(p_t / τ))``, averaged over the batch. Like the SWS paper, it is not scaled by τ².

    Args:
        student: Logits p_s, (B, K), or (N, K) of N labeled pixels.
        teacher: Logits p_t of the same shape.
        temperature: τ > 0.

    Returns:
        Scalar. It is at least the entropy of the teacher's softened prediction, and 0 without a labeled pixel.
    """
    if not len(student):
        return student.sum()
    return F.cross_entropy(student.float() / temperature, (teacher.float() / temperature).softmax(dim=1))


def may_be_unknown(targets: Tensor) -> bool:
    """Whether parts of a target may be unknown: pixels (B, H, W), or several labels (B, K).

    The shares of classes of one label, which are (B, K), too, are floating-point.
    """
    return targets.ndim == 3 or (targets.ndim == 2 and not targets.is_floating_point())
