"""Means, intervals and paired differences over seeds, and the claims that they support."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import isclose, isfinite, nan, sqrt
from statistics import fmean, stdev

from scipy.stats import t as student_t

LEVEL = 0.95
_ROUNDING = 2.0**-22
"""Largest relative difference of equal numbers: measured values and their means are rounded to float32."""


@dataclass(frozen=True)
class Summary:
    """Mean over seeds.

    Attributes:
        mean: Arithmetic mean, in the unit of the values.
        half_width: Half the width of the 95 % confidence interval (Student t); None with one seed, or if a value is not
            finite (then the mean is NaN).
        n: Number of seeds.
    """

    mean: float
    half_width: float | None
    n: int


@dataclass(frozen=True)
class Difference:
    """Paired difference of two methods over common seeds.

    Attributes:
        summary: Mean and interval of (method - baseline).
        p: Two-sided p-value of the paired t-test; None without an interval, or when all differences are equal.

    A difference of equal values is exactly 0, and the interval of equal differences has exactly the half width 0.
    """

    summary: Summary
    p: float | None

    @property
    def claimable(self) -> bool:
        """Whether the 95 % interval excludes 0; False if all differences are equal, because they show no noise."""
        width = self.summary.half_width
        return width is not None and 0 < width < abs(self.summary.mean)

    @property
    def marks(self) -> str:
        """``*`` if claimable, and the p-value if known: ``*, p = 0.012``."""
        star = "*" if self.claimable else ""
        if self.p is None:
            return star
        return f"{star}, p < 0.001" if self.p < 0.001 else f"{star}, p = {self.p:.3f}"


def summarize(values: Sequence[float]) -> Summary:
    """Mean and 95 % confidence interval over seeds.

    Raises:
        ValueError: If there is no value.
    """
    if not values:
        raise ValueError("no value to summarize")
    n = len(values)
    if n == 1:
        return Summary(values[0], None, 1)
    if not all(map(isfinite, values)):
        return Summary(nan, None, n)
    return Summary(fmean(values), margin(n) * stdev(values) / sqrt(n), n)


def paired_difference(method: Mapping[int, float], baseline: Mapping[int, float]) -> Difference | None:
    """Difference of two methods, paired by seed.

    Args:
        method: Value of the method by seed.
        baseline: Value of the method to compare with, by seed.

    Returns:
        The difference; None if the two have no seed in common.
    """
    pairs = [(method[seed], baseline[seed]) for seed in sorted(set(method) & set(baseline))]
    if not pairs:
        return None
    differences = [0.0 if is_equal(*pair) else pair[0] - pair[1] for pair in pairs]
    summary = summarize(differences)
    if summary.half_width is None:
        return Difference(summary, None)
    if max(differences) - min(differences) <= _ROUNDING * max(abs(value) for pair in pairs for value in pair):
        return Difference(replace(summary, half_width=0.0), None)
    t = summary.mean * sqrt(summary.n) / stdev(differences)
    return Difference(summary, float(2 * student_t.sf(abs(t), summary.n - 1)))


def is_equal(one: float, other: float) -> bool:
    """Whether two measured values or means are equal up to rounding."""
    return isfinite(one) and isclose(one, other, rel_tol=_ROUNDING)


@cache
def margin(n: int) -> float:
    """Half the width of the interval of a mean of ``n`` values, in standard errors."""
    return float(student_t.ppf((1 + LEVEL) / 2, n - 1))
