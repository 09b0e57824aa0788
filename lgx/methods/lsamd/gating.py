"""How a selection finds the layers that a data set can share, and what a validation measures of them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torchmetrics import Metric

from lgx.methods.checks import check_option
from lgx.methods.lsamd.super_ancestor import Gate, Token


@dataclass(frozen=True)
class Gating:
    """Options of a selection that the paper does not state.

    Attributes:
        gate: How the adapters learn.
        token: What they read.
        price: λ of the price that a data set pays for its own blocks.
        random_paths: Share of the training in which every layer takes a random block.
    """

    gate: Gate = "chosen"
    token: Token = "class"
    price: float = 0.0
    random_paths: float = 0.0

    def __post_init__(self) -> None:
        check_option("price", self.price, self.price >= 0, "at least 0")
        check_option("random_paths", self.random_paths, 0 <= self.random_paths < 1, "a share in [0, 1)")

    def random_path(self, step: int, steps: int, depth: int, seed: int) -> list[bool] | None:
        """The block of each layer in one step, True for the base block; None where the adapters choose.

        All processes draw the same path, and so does a resumed run.

        Args:
            step: Number of the step.
            steps: Steps of the training.
            depth: Number of layers.
            seed: Seed of the run.
        """
        if step >= self.random_paths * steps:
            return None
        draw = random.Random(f"{seed} {step}")
        return [draw.random() < 0.5 for _ in range(depth)]

    def price_of(self, probabilities: Tensor) -> Tensor:
        """λ Σ_i P(h_i^D), in the mean over the images; probabilities are P(h^B|x), (L, B)."""
        return self.price * (1 - probabilities).mean(dim=1).sum()


def swapped_paths(depth: int) -> list[Sequence[bool]]:
    """The path of own blocks alone, then for each layer the one in which its base block replaces the own one."""
    return [[layer == swapped for layer in range(depth)] for swapped in range(-1, depth)]


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
