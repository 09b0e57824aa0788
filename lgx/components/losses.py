"""Losses as pure functions; weights of classes; and timm's Mixup and CutMix, which mix the labels of two images.

Shapes: B examples, K classes, T features, H and W the height and width of an image, N tokens of a vocabulary of V.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from timm.data import Mixup
from torch import Tensor

from lgx.architectures import Architecture
from lgx.core.task import IGNORE, IGNORE_TOKEN
from lgx.errors import UserError


def label_loss(logits: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Mean cross-entropy between logits and labels; binary cross-entropy for several labels per example.

    The binary cross-entropy is the mean over the known labels of all examples. Smoothing takes its targets to ε / 2 and
    1 - ε / 2.

    Args:
        logits: (B, K), (B, K, H, W) for segmentation, or (B, N, V) for next tokens.
        targets: Class indices (B,); class probabilities, floating-point, (B, K); several labels, integers 0 and 1,
            (B, K); class indices of pixels (B, H, W); or next tokens (B, N). Labels and pixels that are
            :data:`~lgx.core.task.IGNORE`, and tokens that are ``IGNORE_TOKEN``, are left out.
        label_smoothing: ε in [0, 1].

    Returns:
        Scalar; 0 for a batch without known pixels, labels or tokens.
    """
    if logits.ndim == 3:
        logits = logits.flatten(0, 1)
        targets = targets.flatten()
        total = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=label_smoothing)
        return total / (targets != IGNORE_TOKEN).sum().clamp(min=1)
    if targets.ndim == 2 and may_be_unknown(targets):
        is_labeled = targets != IGNORE
        smoothed = (targets * (1 - label_smoothing) + label_smoothing / 2).to(logits.dtype)
        total = F.binary_cross_entropy_with_logits(logits, smoothed, is_labeled.to(logits.dtype), reduction="sum")
        return total / is_labeled.sum().clamp(min=1)
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
        return F.cross_entropy(labeled_logits(logits, targets), targets[targets != IGNORE_TOKEN], reduction="none")
    if targets.ndim == 2 and may_be_unknown(targets):
        is_labeled = targets != IGNORE
        return F.binary_cross_entropy_with_logits(
            logits[is_labeled], targets[is_labeled].to(logits.dtype), reduction="none"
        )
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
    of_examples = student.ndim == 2
    unknown = IGNORE
    if student.ndim == 3:
        student = student.flatten(0, 1)
        teacher = teacher.flatten(0, 1)
        unknown = IGNORE_TOKEN
    student = student.float() / temperature
    wanted = (teacher.float() / temperature).softmax(dim=1)
    if targets is None or of_examples:
        return F.cross_entropy(student, wanted) if len(student) else student.sum()
    losses = F.cross_entropy(student, wanted, reduction="none")
    is_labeled = (targets != unknown).view_as(losses)
    return (losses * is_labeled).sum() / is_labeled.sum().clamp(min=1)


def labeled_logits(logits: Tensor, targets: Tensor) -> Tensor:
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


def balanced_weights(counts: Sequence[int]) -> Tensor:
    """Weights of classes, N / (K n) for n of N examples and K classes with examples; 0 for other classes.

    Their mean over the examples is 1 (scikit-learn's ``balanced``).

    Returns:
        (number of classes,), float32.
    """
    examples = torch.as_tensor(counts, dtype=torch.float32)
    weights = examples.sum() / ((examples > 0).sum() * examples)
    return weights.where(examples > 0, 0.0)


def weighted_label_loss(logits: Tensor, targets: Tensor, weights: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Mean of the smoothed cross-entropy of each example times the weight of its class.

    ``F.cross_entropy`` divides by the batch's sum of weights, so the update depends on the division into batches. It
    also weights the smoothing term by the other classes' weights, so always predicting the rare class can be optimal.

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
    student: Tensor, teacher: Tensor, temperature: float = 1.0, is_labeled: Tensor | None = None
) -> Tensor:
    """The soft cross-entropy of teacher and student for several labels, each an independent yes or no.

    ``BCE(σ(p_s / τ), σ(p_t / τ))``, the mean over the known labels of all examples. A softmax would assume exactly one
    label per image. The papers on learngenes have no such task; this form is ours. Like the logits' part of Yang et
    al., "Multi-Label Knowledge Distillation", ICCV 2023, https://arxiv.org/abs/2308.06453, it compares label by label.

    Args:
        student: Logits p_s, (B, K).
        teacher: Logits p_t, (B, K).
        temperature: τ > 0.
        is_labeled: Which labels are known, (B, K), over which this loss is the mean, like that of labels; None: all.

    Returns:
        Scalar. It is at least the mean entropy of the teacher's softened answers, and 0 without a known label.
    """
    student = student.float() / temperature
    wanted = (teacher.float() / temperature).sigmoid()
    weights = torch.ones_like(wanted) if is_labeled is None else is_labeled.to(wanted.dtype)
    return F.binary_cross_entropy_with_logits(student, wanted, weights, reduction="sum") / weights.sum().clamp(min=1)


def make_mixup(mixup: float, cutmix: float, architecture: Architecture) -> Mixup | None:
    """Build timm's Mixup (Zhang et al., 2018) and CutMix (Yun et al., 2019); the loss smooths the mixed labels.

    Args:
        mixup: α of Mixup; 0 switches it off.
        cutmix: α of CutMix; 0 switches it off.
        architecture: The trained network; gives the number of classes.

    Returns:
        The function that mixes a batch, or None if both are off.
    """
    for option, alpha in (("mixup", mixup), ("cutmix", cutmix)):
        if not 0 <= alpha < math.inf:
            raise UserError(f"model.{option}: must be 0 or a positive finite number, got {alpha}")
    if mixup == 0 and cutmix == 0:
        return None
    if architecture.kind != "classification":
        raise UserError(f"model.mixup, model.cutmix: need one class per image; leave both at 0 for {architecture.kind}")
    return Mixup(mixup_alpha=mixup, cutmix_alpha=cutmix, label_smoothing=0.0, num_classes=architecture.num_classes)
