"""Count floating-point operations."""

from functools import partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, flop_registry

_ATTENTION = "_scaled_dot_product_flash_attention"


def flop_counter() -> FlopCounterMode:
    """Torch's counter without a table; before torch 2.14 that counter knows no fused attention on a CPU."""
    known: dict[Any, partial[int]] = {}
    for end in ("", "_backward"):
        on_cpu, formula = (getattr(torch.ops.aten, _ATTENTION + name + end) for name in ("_for_cpu", ""))
        known[on_cpu] = partial(flop_registry[formula])
        known[on_cpu]._get_raw = True  # type: ignore[attr-defined]  # the formula takes tensors, not their shapes
    return FlopCounterMode(display=False, custom_mapping=known)
