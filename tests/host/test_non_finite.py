"""Weights that are not finite are refused with how many tensors hold them."""

import pytest
import torch

from lgx.errors import UserError
from lgx.host.non_finite import refuse_non_finite


@pytest.mark.parametrize(
    ("count", "words"),
    [(1, "f: w0 holds numbers"), (2, "f: w0 and 1 more tensor hold"), (3, "f: w0 and 2 more tensors hold")],
)
def test_the_message_counts_the_tensors(count, words):
    tensors = {f"w{i}": torch.tensor(float("nan")) for i in range(count)}
    with pytest.raises(UserError, match=words):
        refuse_non_finite({"finite": torch.zeros(2), **tensors}, "f")
