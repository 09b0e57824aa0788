"""Number types of Lightning's precisions."""

from typing import NamedTuple

import torch

from lgx.errors import UserError


class Precision(NamedTuple):
    """Number types of a precision.

    Attributes:
        weights: Type of parameters, gradients and inputs.
        autocast: Type of products where it differs; None otherwise.
    """

    weights: torch.dtype
    autocast: torch.dtype | None


_DOUBLE, _SINGLE = Precision(torch.float64, None), Precision(torch.float32, None)
_BF16, _FP16 = Precision(torch.float32, torch.bfloat16), Precision(torch.float32, torch.float16)
PRECISIONS = {
    "64-true": _DOUBLE, "64": _DOUBLE, "32-true": _SINGLE, "32": _SINGLE, "bf16-mixed": _BF16, "bf16": _BF16,
    "16-mixed": _FP16, "16": _FP16, "bf16-true": Precision(torch.bfloat16, None),
    "16-true": Precision(torch.float16, None),
}  # fmt: skip


def precision_of(name: str) -> Precision:
    """Number types of one of Lightning's precisions.

    Raises:
        UserError: If plans do not know it.
    """
    if name not in PRECISIONS:
        raise UserError(f"trainer.precision: {name} cannot be planned; choose one of {', '.join(PRECISIONS)}")
    return PRECISIONS[name]
