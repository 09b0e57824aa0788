"""Training steps start few operations: a GPU waits for the CPU that starts them."""

import pytest
import torch

from benchmarks.launches import count_predicted, operations
from lgx.architectures import parse_architecture

MOST = {
    "LoGAH step": 2.2, "TAL step": 2.2, "GHN3 step": 2.5, "passes of three slices": 3.3,
    **dict.fromkeys(("LoGAH prediction", "TAL prediction", "GHN3 prediction"), 200 / 384),
}  # fmt: skip
"""What -> most operations, relative to an ordinary step of the same ViT of 12 layers."""


@pytest.fixture(scope="module")
def ratios():
    rows = count_predicted(parse_architecture("12-Tiny"), batch=4)
    return {row["what"]: row["ratio"] for row in rows}


@pytest.mark.parametrize("what", MOST)
def test_a_step_and_a_prediction_start_few_operations(ratios, what):
    assert ratios[what] <= MOST[what]


def test_the_slices_of_a_step_start_hardly_more_operations_than_networks_of_their_sizes(ratios):
    assert ratios["passes of three slices"] <= 1.15 * ratios["passes of three separate networks"]


def test_views_and_allocations_are_no_operations():
    x = torch.randn(4, 4)
    assert operations(lambda: torch.empty_like(x).copy_(x.T)) == 1
