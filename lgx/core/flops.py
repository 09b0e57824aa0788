"""Count floating-point operations."""

from contextlib import nullcontext
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, flop_registry, register_flop_formula

_ATTENTION = "_scaled_dot_product_flash_attention"
_WHOLE = ("silu_backward", "mish_backward", "_fused_rms_norm", "native_batch_norm")
"""Operations without matrix products that torch's counter would run in parts, which gives other values."""


class _NoModules(nullcontext[None]):
    """Counts of the whole alone: torch's own tracker fails where a module reads a parameter without gradients."""

    parents = ("Global",)


def flop_counter() -> FlopCounterMode:
    """Torch's counter without a table, which changes no value that is computed.

    Before torch 2.14 that counter knows no fused attention on a CPU.
    """
    for end in ("", "_backward"):
        on_cpu, formula = (getattr(torch.ops.aten, _ATTENTION + name + end) for name in ("_for_cpu", ""))
        if on_cpu not in flop_registry:
            register_flop_formula(on_cpu, get_raw=True)(flop_registry[formula])  # which reads the shapes itself
    nothing = {getattr(torch.ops.aten, name): lambda *_, **__: 0 for name in _WHOLE if hasattr(torch.ops.aten, name)}
    counter = FlopCounterMode(display=False, custom_mapping=nothing)
    no_modules: Any = _NoModules()
    counter.mod_tracker = no_modules
    return counter
