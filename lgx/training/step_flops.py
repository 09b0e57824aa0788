"""FLOPs of training steps: counted for some steps, estimated for the others."""

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lgx.architectures import Architecture
from lgx.architectures.cost import cost_of

WINDOW = 32
"""Counted steps of a kind from which its other steps are estimated; older ones may be of another phase."""
AGREES = 0.05
"""Largest relative difference of a counted step from its estimate with which fewer steps are counted."""
SPARSE, DENSE = 64, 32
"""Steps of a kind between two counted ones: where estimates agree, and where they do not after ``WINDOW`` steps."""


def size_of(networks: Sequence[Architecture]) -> float:
    """Multiply-accumulates of the networks that a step has drawn, of one example; 0 where nothing is drawn."""
    return float(sum(cost_of(network).macs for network in networks))


def line(sizes: Sequence[float], flops: Sequence[float]) -> tuple[float, float]:
    """The least-squares line ``flops = slope × size + constant``; slope 0 where all sizes are equal."""
    if np.ptp(sizes) == 0:
        return 0.0, float(np.mean(flops))
    spread = np.asarray(sizes) - np.mean(sizes)
    slope = float(spread @ np.asarray(flops) / (spread @ spread))
    return slope, float(np.mean(flops) - slope * np.mean(sizes))


@dataclass
class _Kind:
    """Steps with inputs of one task and shape."""

    counted: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=WINDOW))
    total: int = 0
    gap: int = 1
    waited: int = 0

    def expected(self, size: float) -> float:
        slope, constant = line(*zip(*self.counted, strict=True))
        return slope * size + constant


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

    def add(self, kind: Hashable, size: float, flops: float) -> None:
        """Learn from a counted step."""
        state = self._kinds[kind]
        agrees = bool(state.counted) and abs(state.expected(size) - flops) <= AGREES * flops
        state.counted.append((size, flops))
        state.total += 1
        state.waited = 0
        state.gap = min(2 * state.gap, SPARSE) if agrees else DENSE if state.total > WINDOW else 1

    def expected(self, kind: Hashable, size: float) -> float:
        """The estimate of a step that is not counted."""
        return self._kinds[kind].expected(size)
