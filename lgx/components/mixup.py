"""Mixup (Zhang et al., 2018) and CutMix (Yun et al., 2019), as timm implements them."""

import math

from timm.data import Mixup

from lgx.architectures import Architecture
from lgx.errors import UserError


def make_mixup(mixup: float, cutmix: float, architecture: Architecture) -> Mixup | None:
    """Build timm's Mixup; the loss smooths the mixed labels.

    Args:
        mixup: α of Mixup; 0 switches it off.
        cutmix: α of CutMix; 0 switches it off.
        architecture: The network that is trained; decides the number of classes.

    Returns:
        The function that mixes a batch, or None if both are off.
    """
    for option, alpha in (("mixup", mixup), ("cutmix", cutmix)):
        if not 0 <= alpha < math.inf:
            raise UserError(f"model.{option}: must be 0 or a positive finite number, got {alpha}")
    if mixup == 0 and cutmix == 0:
        return None
    if architecture.kind != "classification":
        raise UserError(
            f"model.mixup, model.cutmix: mix the one class of whole images; leave both at 0 for {architecture.kind}"
        )
    return Mixup(mixup_alpha=mixup, cutmix_alpha=cutmix, label_smoothing=0.0, num_classes=architecture.num_classes)
