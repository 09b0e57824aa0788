"""Count floating-point operations."""

import torch
from torch.utils.flop_counter import FlopCounterMode, flop_registry

_ATTENTION = "_scaled_dot_product_flash_attention"


def flop_counter() -> FlopCounterMode:
    """Torch's counter without a table; before torch 2.14 that counter knows no fused attention on a CPU."""
    known = {}
    for end in ("", "_backward"):
        on_cpu, formula = (getattr(torch.ops.aten, _ATTENTION + name + end) for name in ("_for_cpu", ""))
        known[on_cpu] = flop_registry[formula]
    return FlopCounterMode(display=False, custom_mapping=known)
