"""Mixup and CutMix, by timm."""

import math

from timm.data import Mixup

from lgx.architectures import Architecture
from lgx.errors import UserError


def make_mixup(mixup: float, cutmix: float, label_smoothing: float, architecture: Architecture) -> Mixup | None:
    """Timm's Mixup; None where both are off.

    Args:
        mixup: Mixup's α; 0 is off.
        cutmix: CutMix's α; 0 is off.
        label_smoothing: ε, which timm applies to the mixed labels.
        architecture: What is trained.

    Raises:
        UserError: If it does not classify images, or a number is negative or none.
    """
    for option, alpha in (("mixup", mixup), ("cutmix", cutmix)):
        if not 0 <= alpha < math.inf:
            raise UserError(f"model.{option}: must be 0 or a positive number, got {alpha}")
    if mixup == 0 and cutmix == 0:
        return None
    if architecture.kind != "classification":
        raise UserError(
            f"model.mixup, model.cutmix: mix the classes of whole images; leave them at 0 for {architecture.kind}"
        )
    return Mixup(
        mixup_alpha=mixup, cutmix_alpha=cutmix, label_smoothing=label_smoothing, num_classes=architecture.num_classes
    )
