"""Losses as pure functions.

Shapes: B examples, K classes, T features, H and W the height and width of an image, N tokens of a vocabulary of V.
"""

import torch.nn.functional as F
from torch import Tensor

from lgx.core.batch import IGNORE, IGNORE_TOKEN


def label_loss(logits: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Mean cross-entropy between logits and labels; binary cross-entropy for several labels per example.

    The binary cross-entropy is the mean over the known labels of all examples. Smoothing takes its targets to ε / 2 and
    1 - ε / 2.

    Args:
        logits: (B, K), (B, K, H, W) for segmentation, or (B, N, V) for next tokens.
        targets: Class indices (B,); class probabilities, floating-point, (B, K); several labels, integers 0 and 1,
            (B, K); class indices of pixels (B, H, W); or next tokens (B, N). Labels and pixels that are
            :data:`~lgx.core.batch.IGNORE`, and tokens that are ``IGNORE_TOKEN``, are left out.
        label_smoothing: ε in [0, 1].

    Returns:
        Scalar; 0 for a batch without known pixels, labels or tokens.
    """
    if logits.ndim == 3:
        logits, targets = logits.flatten(0, 1), targets.flatten()
        total = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=label_smoothing)
        return total / (targets != IGNORE_TOKEN).sum().clamp(min=1)
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
    """Cross-entropy of each example, of each labeled pixel, of each known label of several, or of each known token.

    Args:
        logits: (B, K), (B, K, H, W) for segmentation, or (B, N, V) for next tokens.
        targets: Class indices (B,), class indices of pixels (B, H, W), several labels (B, K), or next tokens (B, N).

    Returns:
        (B,), or (n,) for n labeled pixels, known labels or known tokens.
    """
    if logits.ndim == 3:
        return F.cross_entropy(of_known(logits, targets), targets[targets != IGNORE_TOKEN], reduction="none")
    if targets.ndim == 2 and may_be_unknown(targets):
        known = targets != IGNORE
        return F.binary_cross_entropy_with_logits(logits[known], targets[known].to(logits.dtype), reduction="none")
    losses = F.cross_entropy(logits, targets, reduction="none", ignore_index=IGNORE if targets.ndim == 3 else -100)
    return losses[targets != IGNORE] if targets.ndim == 3 else losses


def distillation_loss(
    student: Tensor, teacher: Tensor, temperature: float = 1.0, targets: Tensor | None = None
) -> Tensor:
    """Soft cross-entropy between the predictions of a teacher and a student (Hinton et al., 2015; SWS, Eq. 2).

    ``CE(softmax(p_s / τ), softmax(p_t / τ))``, averaged over the batch. Like the SWS paper, it is not scaled by τ².

    Args:
        student: Logits p_s, (B, K), (B, K, H, W) for segmentation, or (B, N, V) for next tokens.
        teacher: Logits p_t of the same shape.
        temperature: τ > 0.
        targets: Of pixels or tokens, of which the unknown are left out; None: all are known. Only known positions
            count, but all are computed: so a plan can count the step without knowing the targets.

    Returns:
        Scalar. It is at least the entropy of the teacher's softened prediction, and 0 without a prediction.
    """
    of_examples, unknown = student.ndim == 2, IGNORE
    if student.ndim == 3:
        student, teacher, unknown = student.flatten(0, 1), teacher.flatten(0, 1), IGNORE_TOKEN
    student, wanted = student.float() / temperature, (teacher.float() / temperature).softmax(dim=1)
    if targets is None or of_examples:
        return F.cross_entropy(student, wanted) if len(student) else student.sum()
    losses = F.cross_entropy(student, wanted, reduction="none")
    known = (targets != unknown).view_as(losses)
    return (losses * known).sum() / known.sum().clamp(min=1)


def of_known(logits: Tensor, targets: Tensor) -> Tensor:
    """Logits (n, K) of the n labeled pixels or known tokens.

    Args:
        logits: (B, K, H, W), or (B, N, V) for next tokens; logits (B, K) are returned as they are.
        targets: Class indices of pixels (B, H, W), or next tokens (B, N).
    """
    if logits.ndim == 3:
        return logits[targets != IGNORE_TOKEN]
    return logits.movedim(1, -1)[targets != IGNORE] if logits.ndim == 4 else logits


def may_be_unknown(targets: Tensor) -> bool:
    """Whether parts of a target may be unknown: pixels (B, H, W), or several labels (B, K).

    The shares of classes of one label, which are (B, K), too, are floating-point.
    """
    return targets.ndim == 3 or (targets.ndim == 2 and not targets.is_floating_point())
