"""Latency of networks on this machine."""

import torch
from torch.utils.benchmark import Timer

from lgx.architectures import ViTArchitecture
from lgx.initialization.sizes import Sizes

_LEAST, _MOST = 0.5, 5.0
"""Seconds of all passes: at least, and at most where the times of the passes vary."""


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
            given = {"model": model, "images": images}
            timer = Timer("model(images)", globals=given, num_threads=torch.get_num_threads())
            with torch.inference_mode():
                self.measured[network] = timer.adaptive_autorange(min_run_time=_LEAST, max_run_time=_MOST).median
        return self.measured[network]

    def parts(self, sizes: Sizes, embed_dim: int, mlp_ratio: float) -> tuple[float, float]:
        """Seconds of all that lies outside the layers, and of one layer: measured with one and with three layers."""
        one, three = (self.measure(sizes.network(depth, embed_dim, mlp_ratio)) for depth in (1, 3))
        layer = max((three - one) / 2, one / 1000)  # noise may let three layers take less time than one
        return max(one - layer, 0.0), layer
