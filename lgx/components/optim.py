"""Learning-rate schedules and parameter groups."""

import math
from collections.abc import Callable
from typing import Any

from timm.optim import param_groups_weight_decay
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from lgx.errors import UserError


class WarmupCosine(LambdaLR):
    """Linear warm-up, then half a cosine down to a share of the base learning rate. Stepped after every update.

    Args:
        optimizer: Given by the method.
        total_steps: Given by the method: optimizer steps of the whole run.
        warmup: Share of ``total_steps`` spent warming up, in [0, 1).
        final: Learning rate at the end, as a share of the base learning rate.
    """

    def __init__(self, optimizer: Optimizer, total_steps: int, warmup: float = 0.05, final: float = 0.0) -> None:
        if not 0 <= warmup < 1:
            raise UserError(f"scheduler.warmup: a share of the run in [0, 1), got {warmup}")
        warm = round(warmup * total_steps)

        def factor(step: int) -> float:
            if step < warm:
                return (step + 1) / (warm + 1)
            progress = min(1.0, (step - warm) / max(1, total_steps - warm))
            return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * progress))

        super().__init__(optimizer, factor)


class Poly(LambdaLR):
    """Polynomial decay to zero: (1 - t/T)^power. Stepped after every update (LSAMD, appendix).

    Args:
        optimizer: Given by the method.
        total_steps: Given by the method: optimizer steps of the whole run, T.
        power: Exponent.
    """

    def __init__(self, optimizer: Optimizer, total_steps: int, power: float = 0.9) -> None:
        super().__init__(optimizer, lambda step: max(0.0, 1 - step / max(1, total_steps)) ** power)


def parameter_groups(module: nn.Module) -> list[dict[str, Any]]:
    """Two groups: matrices decay, vectors and embeddings do not.

    Args:
        module: Network whose trainable parameters to group. Its ``no_weight_decay()``, which timm's ViTs have, names
            position embedding and class token.

    Returns:
        Groups for an optimizer. Decayed matrices take the optimizer's own ``weight_decay``.
    """
    names: Callable[[], set[str]] = getattr(module, "no_weight_decay", set)
    groups: list[dict[str, Any]] = param_groups_weight_decay(module, weight_decay=1.0, no_weight_decay_list=names())
    for group in groups:
        if group["weight_decay"]:
            del group["weight_decay"]  # the optimizer's own value counts
    return [group for group in groups if group["params"]]
