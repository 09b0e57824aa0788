"""Labels other than one class for each example, all alike.

Rare classes may weigh more, an example may have several labels, and Mixup (Zhang et al., 2018) and CutMix (Yun et al.,
2019), as timm implements them, mix the labels of two.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from timm.data import Mixup
from torch import Tensor

from lgx.architectures import Architecture
from lgx.errors import UserError


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
    student: Tensor, teacher: Tensor, temperature: float = 1.0, known: Tensor | None = None
) -> Tensor:
    """The soft cross-entropy of teacher and student for several labels, each an independent yes or no.

    ``BCE(σ(p_s / τ), σ(p_t / τ))``, the mean over the known labels of all examples. A softmax would assume exactly one
    label per image. The papers on learngenes have no such task; this form is ours. Like the logits' part of Yang et
    al., "Multi-Label Knowledge Distillation", ICCV 2023, https://arxiv.org/abs/2308.06453, it compares label by label.

    Args:
        student: Logits p_s, (B, K).
        teacher: Logits p_t, (B, K).
        temperature: τ > 0.
        known: Known labels, (B, K), over which this loss is the mean, like the loss of the labels; None: all.

    Returns:
        Scalar. It is at least the mean entropy of the teacher's softened answers, and 0 without a known label.
    """
    student, wanted = student.float() / temperature, (teacher.float() / temperature).sigmoid()
    known = torch.ones_like(wanted) if known is None else known.to(wanted.dtype)
    return F.binary_cross_entropy_with_logits(student, wanted, known, reduction="sum") / known.sum().clamp(min=1)


def make_mixup(mixup: float, cutmix: float, architecture: Architecture) -> Mixup | None:
    """Build timm's Mixup; the loss smooths the mixed labels.

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
