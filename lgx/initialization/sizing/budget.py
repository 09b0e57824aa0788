"""Budgets of a network as a user writes them: ``9M`` parameters, ``1.2G`` MACs, ``5ms``."""

import math
import re
from typing import Literal, NamedTuple

from lgx.errors import UserError

What = Literal["params", "macs", "latency"]

TOLERANCE = 0.02
"""A network meets a budget if it differs from it by at most this share."""

_NOISE = 0.1
"""So much less than a budget of time meets it: repeated measurements differ by as much."""

_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}
_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_EXAMPLES = {"params": "9M", "macs": "1.2G", "latency": "5ms"}
_WORDS = {"params": "parameters", "macs": "MACs", "latency": "for a pass"}


class Budget(NamedTuple):
    """What a network may cost.

    Attributes:
        what: ``params``, the number of parameters; ``macs``, the multiply-accumulates of one example; or ``latency``,
            the seconds of a forward pass.
        limit: The largest value.
    """

    what: What
    limit: float

    @property
    def least(self) -> float:
        """The smallest value that meets the budget."""
        return self.limit * (1 - (_NOISE if self.what == "latency" else TOLERANCE))

    @property
    def most(self) -> float:
        """The largest value that meets the budget."""
        return self.limit * (1 + TOLERANCE)

    def __str__(self) -> str:
        return f"--{self.what} {amount(self.what, self.limit)}"

    def words(self, value: float) -> str:
        """A value of this kind with its unit, e.g. ``5.72M parameters``."""
        return f"{amount(self.what, value)} {_WORDS[self.what]}"


def amount(what: What, value: float) -> str:
    """A value as a user may write it: ``5.72M``, ``5.1ms``."""
    if what == "latency":
        return f"{value * 1e3:.3g}ms"
    for suffix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.4g}{suffix}"
    return f"{value:.4g}"


def parse_budgets(params: str | None = None, macs: str | None = None, latency: str | None = None) -> list[Budget]:
    """Read the budgets that are given.

    Args:
        params: Number of parameters, e.g. ``9M``.
        macs: Multiply-accumulates of one example, e.g. ``1.2G``.
        latency: Time of a forward pass, e.g. ``5ms``.

    Returns:
        At least none, in this order.

    Raises:
        UserError: If a budget is no positive number with a known unit.
    """
    given: dict[What, str | None] = {"params": params, "macs": macs, "latency": latency}
    return [Budget(what, _parsed(what, text)) for what, text in given.items() if text is not None]


def _parsed(what: What, text: str) -> float:
    units = _SECONDS if what == "latency" else _COUNTS
    match = re.fullmatch(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?) *([a-zµ]*)", text.strip().lower().replace(",", ""))
    if match is None or match[2] not in units:
        known = ", ".join(units) if what == "latency" else "k, M, G and T"
        raise UserError(f"--{what} {text}: expected a number such as {_EXAMPLES[what]}; the units are {known}")
    value = float(match[1]) * units[match[2]]
    if not 0 < value < math.inf:
        raise UserError(f"--{what} {text}: must be positive and finite, for example {_EXAMPLES[what]}")
    return value
