"""Changes to predicted weights that make a descendant easier to train."""

import re
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from lgx.errors import UserError

Spectrum = Literal["predicted", "random"]
_IN_A_BLOCK = re.compile(r"(?:^|\.)(?:blocks|layers|h)\..*weight$")
"""Names of the weights of blocks, as timm, torchvision and transformers write them: no embeddings, no heads."""


def with_noise(predicted: Mapping[str, Tensor], share: float, seed: int = 0) -> dict[str, Tensor]:
    """Add Gaussian noise to every weight of two or more dimensions.

    Args:
        predicted: Parameters by name.
        share: Standard deviation of the noise, as a share of each weight's own standard deviation; 0 for none.
        seed: Seed of the noise.
    """
    if not share:
        return dict(predicted)
    generator = torch.Generator().manual_seed(seed)
    return {
        name: tensor + share * tensor.std() * torch.randn(tensor.shape, generator=generator)
        if name.endswith("weight") and tensor.ndim > 1
        else tensor
        for name, tensor in predicted.items()
    }


def with_random_spectrum(predicted: Mapping[str, Tensor], seed: int = 0) -> dict[str, Tensor]:
    """Give every matrix (rows, columns) of the blocks the singular values of a random start; keep its singular vectors.

    A hypernetwork predicts matrices of low rank: few directions carry almost all of a matrix, and where it repeats its
    output, some carry nothing; for these the singular vectors are arbitrary. Such a start trains badly. This is ours;
    the papers train predictions as they are.

    Args:
        predicted: Parameters by name.
        seed: Seed of the random start, whose weights follow a truncated normal distribution of deviation 0.02.

    Raises:
        UserError: If the network has no matrices in blocks, as convolutional ones, or one of them is not finite.
    """
    matrices = {name for name, tensor in predicted.items() if _IN_A_BLOCK.search(name) and tensor.ndim == 2}
    if not matrices:
        raise UserError("spectrum: this network has no matrices in blocks; leave it out")
    if wrong := next((name for name in sorted(matrices) if not predicted[name].isfinite().all()), None):
        raise UserError(f"spectrum: the prediction of {wrong} holds values that are not finite; leave it out")
    generator = torch.Generator().manual_seed(seed)
    return {name: _flattened(t, generator) if name in matrices else t for name, t in predicted.items()}


def _flattened(matrix: Tensor, generator: torch.Generator) -> Tensor:
    random = nn.init.trunc_normal_(torch.empty_like(matrix, dtype=torch.float64), std=0.02, generator=generator)
    left, _, right = torch.linalg.svd(matrix.double(), full_matrices=False)
    flattened: Tensor = (left * torch.linalg.svdvals(random)) @ right
    return flattened.to(matrix.dtype)
