"""FLOPs of training steps: counted for some steps, estimated for the others."""

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lgx.architectures import Architecture
from lgx.architectures.cost import cost_of

WINDOW = 32
"""Counted steps of a kind from which its other steps are estimated; older ones may be of another phase."""
AGREES = 0.05
"""Largest relative difference of a counted step from its estimate with which fewer steps are counted."""
SPARSE, DENSE = 64, 32
"""Steps of a kind between two counted ones: where estimates agree, and where they do not after ``WINDOW`` steps."""


class Size(NamedTuple):
    """What the FLOPs of a step follow: those of a pass with the first, those of a prediction with the second.

    Attributes:
        macs: Multiply-accumulates of the networks that the step has drawn, of one example; 0 where nothing is drawn.
        parameters: Parameters of these networks.
    """

    macs: float
    parameters: float


def size_of(networks: Sequence[Architecture]) -> Size:
    """The size of networks together."""
    costs = [cost_of(network) for network in networks]
    return Size(sum(cost.macs for cost in costs), sum(cost.parameters for cost in costs))


class Estimate:
    """FLOPs of steps as a linear function of their sizes, fitted to counted steps by least squares."""

    def __init__(self, sizes: Sequence[Size], flops: Sequence[float]) -> None:
        points = np.asarray(sizes, float)
        self._mean = points.mean(0)
        self._flops = float(np.mean(flops))
        self._scale = np.maximum(self._mean, 1)
        spread = (points - self._mean) / self._scale
        self._slopes = np.linalg.lstsq(spread, np.asarray(flops) - self._flops, rcond=1e-6)[0]

    def of(self, size: Sequence[float]) -> float:
        """FLOPs of a step of this size, or the mean of steps of this mean size."""
        return float((np.asarray(size) - self._mean) / self._scale @ self._slopes) + self._flops


@dataclass
class _Kind:
    """Steps with inputs of one task and shape."""

    counted: deque[tuple[Size, float]] = field(default_factory=lambda: deque(maxlen=WINDOW))
    total: int = 0
    gap: int = 1
    waited: int = 0

    def expected(self, size: Size) -> float:
        return Estimate(*zip(*self.counted, strict=True)).of(size)


class StepFlops:
    """Decides which steps are counted, and estimates the others from counted ones of their kind and size.

    The first steps of a kind are counted. As long as they agree with their estimates, ever fewer are counted, so that
    counting takes little time, and a change of what a step does is noticed.
    """

    def __init__(self) -> None:
        self._kinds: dict[Hashable, _Kind] = {}

    def is_due(self, kind: Hashable) -> bool:
        """Whether the next step, of this kind, must be counted."""
        state = self._kinds.setdefault(kind, _Kind())
        state.waited += 1
        return state.waited >= state.gap

    def add(self, kind: Hashable, size: Size, flops: float) -> None:
        """Learn from a counted step."""
        state = self._kinds[kind]
        agrees = bool(state.counted) and abs(state.expected(size) - flops) <= AGREES * flops
        state.counted.append((size, flops))
        state.total += 1
        state.waited = 0
        state.gap = min(2 * state.gap, SPARSE) if agrees else DENSE if state.total > WINDOW else 1

    def expected(self, kind: Hashable, size: Size) -> float:
        """The estimate of a step that is not counted."""
        return self._kinds[kind].expected(size)
