"""What a validation measures of a data set's path: the blocks that its images prefer, and those that it needs."""

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


class SwapRise(Metric):
    """Per layer, the rise of the loss when the base block replaces the own one, and all other layers keep theirs.

    Args:
        depth: Number of layers, L.
    """

    full_state_update = False
    losses: Tensor
    images: Tensor

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.add_state("losses", torch.zeros(1 + depth), dist_reduce_fx="sum")
        self.add_state("images", torch.zeros(()), dist_reduce_fx="sum")

    def update(self, losses: Tensor, images: int) -> None:
        """Add the mean losses of a batch, (1 + L,): with own blocks alone, then with the base block in each layer."""
        self.losses += losses * images
        self.images += images

    def compute(self) -> Tensor:
        """The rise, (L,)."""
        return (self.losses[1:] - self.losses[0]) / self.images
