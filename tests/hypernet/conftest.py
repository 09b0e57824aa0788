"""Factors of a small matrix."""

import pytest
import torch
from torch import Tensor


@pytest.fixture
def pair() -> tuple[Tensor, Tensor]:
    """Two factors, (6, 3) and (3, 4), in double precision."""
    torch.manual_seed(0)
    shapes = (6, 3), (3, 4)
    return tuple(torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in shapes)
