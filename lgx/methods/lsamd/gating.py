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

    gate: Gate = "compared"
    token: Token = "mean"
    price: float = 0.03
    random_paths: float = 0.5

    def __post_init__(self) -> None:
        check_option("price", self.price, self.price >= 0, "at least 0")
        check_option("random_paths", self.random_paths, 0 <= self.random_paths < 1, "a share in [0, 1)")

    @property
    def suffix(self) -> str:
        """What results add to ``lsamd``: nothing for the gate that compares nothing, ``_priced`` with a price."""
        return "_priced" if self.price else "" if self.gate == "chosen" else f"_{self.gate}"

    def random_path(self, step: int, steps: int, depth: int, seed: int) -> list[bool] | None:
        """The block of each layer in one step, True for the base block; None where the adapters choose.

        All processes draw the same path, and so does a resumed run.
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


class ImageSums(Metric):
    """Sums over images, and their number, of which validation makes means.

    Args:
        shape: Shape of the sums.
    """

    full_state_update = False
    sums: Tensor
    images: Tensor

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.add_state("sums", torch.zeros(shape), dist_reduce_fx="sum")
        self.add_state("images", torch.zeros(()), dist_reduce_fx="sum")

    def update(self, sums: Tensor, images: int) -> None:
        """Add the sums over the images of a batch, in the given shape."""
        self.sums += sums
        self.images += images

    def compute(self) -> tuple[Tensor, Tensor]:
        """The sums over all batches and processes, and the number of images, a scalar."""
        return self.sums, self.images
