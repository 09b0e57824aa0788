"""Which size each update of a family trains."""

import math
import random
from bisect import bisect
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from statistics import fmean

from lgx.architectures import Architecture
from lgx.architectures.cost import cost_of

_GOLDEN = (math.sqrt(5) - 1) / 2
"""Multiples of it, modulo 1, are spread evenly over [0, 1) from the first few on."""


class EqualCompute:
    """Divides the updates of a run among groups of sizes, so that all groups get the same compute.

    Within a group, a size is drawn in inverse proportion to the cost of its update. The updates of a group are spread
    evenly over the run.

    Args:
        groups: Groups of sizes.
        fixed: What an update of every size costs besides its own passes, see :meth:`cost`.
    """

    def __init__(self, groups: Sequence[Sequence[Architecture]], fixed: float = 0) -> None:
        self.groups, self.fixed = groups, fixed
        self._rates = [fmean(1 / self.cost(size) for size in group) for group in groups]

    def cost(self, size: Architecture) -> float:
        """A third of the multiply-accumulates of an example in an update: a forward pass, and the fixed part."""
        return cost_of(size).macs + self.fixed

    @cached_property
    def shares(self) -> list[float]:
        """Share of the updates that each group gets."""
        return [rate / sum(self._rates) for rate in self._rates]

    @cached_property
    def mean_cost(self) -> float:
        """The cost of an average update, see :meth:`cost`."""
        return len(self.groups) / sum(self._rates)

    def size(self, update: int, seed: int) -> Architecture:
        """The size of an update, the same on every process and after a resume.

        Args:
            update: Number of the update.
            seed: Seed of the run.
        """
        group = self.group(update, seed)
        weights = [1 / self.cost(size) for size in group]
        return random.Random(repr((seed, update))).choices(group, weights)[0]

    def group(self, update: int, seed: int) -> Sequence[Architecture]:
        """The group of an update; the seed decides where the sequence begins."""
        borders = list(accumulate(self.shares))[:-1]
        return self.groups[bisect(borders, (random.Random(seed).random() + update * _GOLDEN) % 1)]
