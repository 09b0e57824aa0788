"""Latency of a network on this machine, and of many sizes from a few measured ones."""

import os
import time
from statistics import median, quantiles
from typing import NamedTuple

import numpy as np
import torch

from lgx.architectures import ViTArchitecture
from lgx.initialization.sizing.counts import Law
from lgx.initialization.sizing.space import Shape, Space

_WARM_UP, _LEAST, _MOST = 3, 15, 200
"""Passes that are not timed; fewest and most passes that are."""
_SECONDS = 0.5
"""Time after which no further pass is made."""
_BUSY = 0.15
"""Spread from which the machine counts as busy."""
_SHALLOW = 4
"""No width is measured at which only networks so many times shallower than balanced ones keep to the limit."""


class Latency(NamedTuple):
    """Time of a forward pass.

    Attributes:
        seconds: Median over the timed passes.
        low: First quartile.
        high: Third quartile.
    """

    seconds: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Distance of the quartiles as a share of the median."""
        return (self.high - self.low) / self.seconds

    def __str__(self) -> str:
        return f"{self.seconds * 1e3:.3g} ({self.low * 1e3:.3g} to {self.high * 1e3:.3g})"


def pass_latency(architecture: ViTArchitecture, batch: int = 1, device: str = "cpu") -> Latency:
    """Time forward passes of a network with random weights, in float32.

    Args:
        architecture: The network.
        batch: Images of a pass.
        device: Where it runs.
    """
    model = architecture.build(None).eval().to(device)
    images = torch.zeros(batch, *architecture.example_input().shape[1:], device=device)
    times: list[float] = []
    with torch.inference_mode():
        for _ in range(_WARM_UP):
            _timed(model, images)
        while len(times) < _LEAST or (sum(times) < _SECONDS and len(times) < _MOST):
            times.append(_timed(model, images))
    low, _, high = quantiles(times, n=4)
    return Latency(median(times), low, high)


def _timed(model: torch.nn.Module, images: torch.Tensor) -> float:
    start = time.perf_counter()
    model(images)
    if images.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


class Clock:
    """Measures the networks of a space, and estimates those that it has not measured.

    Args:
        space: The sizes.
        law: Their MACs.
        limit: Largest latency that matters.
        batch: Images of a pass.
        device: Where the networks run.
    """

    def __init__(self, space: Space, law: Law, limit: float, batch: int = 1, device: str = "cpu") -> None:
        self.space, self.law, self.batch, self.device = space, law, batch, device
        self.measured: dict[ViTArchitecture, Latency] = {}
        self._macs: list[tuple[float, float]] = []
        self._seconds: list[tuple[float, float]] = []
        widths = list(space.widths())
        while widths and not (self._seconds and self._balanced_seconds > _SHALLOW * limit):
            self._add(widths[0])
            widths = [width for width in widths if width >= 1.5 * self._width or width == widths[-1] > self._width]

    def measure(self, architecture: ViTArchitecture) -> Latency:
        """The latency of one network; measured once."""
        if architecture not in self.measured:
            self.measured[architecture] = pass_latency(architecture, self.batch, self.device)
        return self.measured[architecture]

    def parts(self, embed_dim: int, mlp_ratio: float) -> tuple[float, float]:
        """Estimated seconds of all that lies outside the layers, and of one layer.

        Linear in the MACs between the measured widths, and in proportion to the MACs beyond them.
        """
        costs = self.law.parts(embed_dim, mlp_ratio)
        outside, inside = (
            _interpolated(cost.macs, [macs[part] for macs in self._macs], [time[part] for time in self._seconds])
            for part, cost in enumerate(costs)
        )
        return outside, inside

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence where other work on the machine disturbs the measurement."""
        spread = max((latency.spread for latency in self.measured.values()), default=0.0)
        load, cores = os.getloadavg()[0], os.cpu_count() or 1
        if spread <= _BUSY and load <= cores:
            return ()
        return (
            f"busy      the machine has other work: spread up to {100 * spread:.0f} %, load {load:.1f} on {cores} "
            f"cores; measure again when it is idle",
        )

    @property
    def _balanced_seconds(self) -> float:
        """Estimated seconds of the last measured width at the depth that is in proportion."""
        like, (outside, inside) = self.space.like, self._seconds[-1]
        return outside + inside * max(self.space.sizes.depth[0], like.depth * self._width / like.embed_dim)

    def _add(self, width: int) -> None:
        """Measure one and three layers of a width."""
        self._width = width
        ratio = min(max(self.space.like.mlp_ratio, self.space.sizes.mlp_ratio[0]), self.space.sizes.mlp_ratio[1])
        shape = Shape(width, width // self.space.head, ratio)
        one, three = (self.measure(self.space.network(depth, shape)).seconds for depth in (1, 3))
        layer = max((three - one) / 2, one / 1000)  # noise may let three layers take less time than one
        outside, inside = self.law.parts(width, ratio)
        self._macs.append((outside.macs, inside.macs))
        self._seconds.append((max(one - layer, 0.0), layer))


def _interpolated(macs: float, known: list[float], seconds: list[float]) -> float:
    if macs > known[-1]:
        return seconds[-1] * macs / known[-1]
    return float(np.interp(macs, known, seconds))
