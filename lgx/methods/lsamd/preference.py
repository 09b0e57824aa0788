"""Which blocks the images of a validation prefer."""

import torch
from torch import Tensor
from torchmetrics import Metric


class Preference(Metric):
    """Per layer, the share of images that prefer the base block, and their mean P(h^B|x).

    Args:
        depth: Number of layers, L.
    """

    full_state_update = False
    base: Tensor
    probability: Tensor
    images: Tensor

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.add_state("base", torch.zeros(depth), dist_reduce_fx="sum")
        self.add_state("probability", torch.zeros(depth), dist_reduce_fx="sum")
        self.add_state("images", torch.zeros(()), dist_reduce_fx="sum")

    def update(self, probabilities: Tensor) -> None:
        """Add P(h^B|x) of every layer and image, (L, B)."""
        self.base += (probabilities >= 0.5).sum(dim=1)
        self.probability += probabilities.sum(dim=1)
        self.images += probabilities.shape[1]

    def compute(self) -> tuple[Tensor, Tensor]:
        """Both, (L,) each."""
        return self.base / self.images, self.probability / self.images
