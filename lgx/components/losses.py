"""Losses as pure functions.

Shapes: B examples, K classes, T features, H and W the height and width of an image.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from lgx.core.batch import IGNORE


def label_loss(logits: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Mean cross-entropy between logits and labels; binary cross-entropy where an example may have several labels.

    The binary cross-entropy is the mean over the known labels of all examples. Smoothing takes its targets to ε / 2 and
    1 - ε / 2.

    Args:
        logits: (B, K), or (B, K, H, W) for segmentation.
        targets: Class indices (B,); class probabilities, floating-point, (B, K); several labels, integers 0 and 1,
            (B, K); or class indices of pixels (B, H, W). Labels and pixels that are :data:`~lgx.core.batch.IGNORE` are
            left out.
        label_smoothing: ε in [0, 1].

    Returns:
        Scalar. It is 0 for a batch of which no pixel or label is known.
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
    """Cross-entropy of each example, or of each labeled pixel; of several labels that of each known one.

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
