"""Budgets of a network as a user writes them: ``9M`` parameters, ``1.2G`` MACs, ``5ms``."""

import math
import re
from typing import Literal, NamedTuple

from lgx.errors import UserError

Quantity = Literal["params", "macs", "latency"]

_UNUSED: dict[Quantity, float] = {"params": 0.02, "macs": 0.02, "latency": 0.1}
"""A network meets a budget if it takes at most this share less; repeated measurements of time differ by as much."""

_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}
_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_EXAMPLES = {"params": "9M", "macs": "1.2G", "latency": "5ms"}


class Budget(NamedTuple):
    """What a network may cost.

    Attributes:
        quantity: ``params``, the number of parameters; ``macs``, the multiply-accumulates of one example; or
            ``latency``, the seconds of a forward pass.
        limit: The largest value.
    """

    quantity: Quantity
    limit: float

    @property
    def least(self) -> float:
        """The smallest value that meets the budget."""
        return self.limit * (1 - _UNUSED[self.quantity])

    def __str__(self) -> str:
        return f"--{self.quantity} {amount(self.quantity, self.limit)}"


def amount(quantity: Quantity, value: float) -> str:
    """A value as a user may write it: ``5.72M``, ``5.1ms``."""
    if quantity == "latency":
        return f"{value * 1e3:.3g}ms"
    for suffix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.4g}{suffix}"
    return f"{value:.4g}"


def enough(quantity: Quantity, value: float) -> str:
    """The same rounded up: a budget that this value meets."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return amount(quantity, max(value, math.ceil(value / unit - 1e-9) * unit))


def parse_budgets(params: str | None = None, macs: str | None = None, latency: str | None = None) -> list[Budget]:
    """Read the budgets that are given.

    Args:
        params: Number of parameters, e.g. ``9M``.
        macs: Multiply-accumulates of one example, e.g. ``1.2G``.
        latency: Time of a forward pass, e.g. ``5ms``.
    """
    limits: dict[Quantity, str | None] = {"params": params, "macs": macs, "latency": latency}
    return [Budget(quantity, _parsed(quantity, text)) for quantity, text in limits.items() if text is not None]


def _parsed(quantity: Quantity, text: str) -> float:
    units = _SECONDS if quantity == "latency" else _COUNTS
    match = re.fullmatch(r"((?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?) *([a-zµ]*)", text.strip().lower().replace(",", ""))
    value = float(match[1]) * units[match[2]] if match and match[2] in units else math.nan
    if not 0 < value < math.inf:
        known = ", ".join(_SECONDS) if quantity == "latency" else "k, M, G and T"
        raise UserError(
            f"--{quantity} {text}: expected a positive number such as {_EXAMPLES[quantity]}; the units are {known}"
        )
    return value
