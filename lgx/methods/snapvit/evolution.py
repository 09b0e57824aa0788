"""Exponential natural evolution strategies (xNES)."""

from collections.abc import Callable
from math import log

import torch
from torch import Tensor


def maximize(value: Callable[[Tensor], float], start: Tensor, evaluations: int, generator: torch.Generator) -> Tensor:
    """The best point (N,) of so many evaluations of xNES, from a start (N,).

    Glasmachers et al., "Exponential natural evolution strategies", GECCO 2010, with the defaults of its Table 1; the
    first step width is ours.
    """
    size, steps = len(start), 4 + int(3 * log(len(start)))
    ranks = torch.arange(1, steps + 1, dtype=torch.float64)
    utilities = (log(steps / 2 + 1) - ranks.log()).clamp_min(0)
    utilities = utilities / utilities.sum() - 1 / steps
    rate = 0.6 * (3 + log(size)) / size**1.5
    mean, width, shape = start.double(), 0.1, torch.eye(size, dtype=torch.float64)
    best, most = mean, value(mean)
    for _ in range((evaluations - 1) // steps):
        drawn = torch.randn(steps, size, dtype=torch.float64, generator=generator)
        points = mean + width * drawn @ shape
        values = torch.tensor([value(point) for point in points], dtype=torch.float64)
        if values.max() > most:
            best, most = points[values.argmax()], float(values.max())
        ranked = drawn[values.argsort(descending=True, stable=True)]
        spread = (utilities[:, None] * ranked).T @ ranked  # the utilities add up to 0
        scale = spread.trace() / size
        mean = mean + width * (utilities @ ranked) @ shape
        width *= float((rate / 2 * scale).exp())
        shape = torch.matrix_exp(rate / 2 * (spread - scale * torch.eye(size, dtype=torch.float64))) @ shape
    return best
