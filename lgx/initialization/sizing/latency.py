"""Latency of networks on this machine."""

import time
from collections.abc import Callable
from statistics import median

import torch

from lgx.architectures import ViTArchitecture
from lgx.initialization.sizes import Sizes

_WARM_UP, _LEAST, _MOST = 3, 15, 200
"""Passes that are not timed; fewest and most passes that are."""
_SECONDS = 0.5
"""Time after which no further pass is made."""


class Stopwatch:
    """Times forward passes of networks with random weights in float32; every network once.

    Args:
        batch: Images of a pass.
        device: Where the networks run.
    """

    def __init__(self, batch: int = 1, device: str = "cpu") -> None:
        self.batch, self.device = batch, device
        self.measured: dict[ViTArchitecture, float] = {}

    def measure(self, network: ViTArchitecture) -> float:
        """The median of the seconds of a pass."""
        if network not in self.measured:
            model = network.build(None).eval().to(self.device)
            images = torch.zeros(self.batch, *network.example_input().shape[1:], device=self.device)
            self.measured[network] = seconds_of_pass(model, images)
        return self.measured[network]

    def parts(self, sizes: Sizes, embed_dim: int, mlp_ratio: float) -> tuple[float, float]:
        """Seconds of all that lies outside the layers, and of one layer: measured with one and with three layers."""
        one, three = (self.measure(sizes.network(depth, embed_dim, mlp_ratio)) for depth in (1, 3))
        layer = max((three - one) / 2, one / 1000)  # noise may let three layers take less time than one
        return max(one - layer, 0.0), layer


def seconds_of_pass(model: Callable[[torch.Tensor], object], images: torch.Tensor) -> float:
    """The median of the seconds of a forward pass of images (B, C, H, W)."""
    times: list[float] = []
    for _ in range(_WARM_UP):
        _timed(model, images)
    while len(times) < _LEAST or (sum(times) < _SECONDS and len(times) < _MOST):
        times.append(_timed(model, images))
    return median(times)


@torch.inference_mode()
def _timed(model: Callable[[torch.Tensor], object], images: torch.Tensor) -> float:
    """Seconds of one forward pass of images (B, C, H, W)."""
    start = time.perf_counter()
    model(images)
    if images.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start
