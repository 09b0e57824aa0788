"""Training steps start few operations: a GPU waits for the CPU that starts them."""

from functools import partial

import pytest
import torch
from torch.optim import AdamW

from benchmarks.launches import count_predicted, operations
from benchmarks.steps import random_images
from lgx.architectures import parse_architecture
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.methods import Family

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


def test_a_slice_of_a_family_starts_hardly_more_operations_than_a_network_of_its_size(tmp_path):
    architecture, file = parse_architecture("12-Tiny"), tmp_path / f"ancestor{SUFFIX}"
    Learngene("ancestor", architecture, dict(architecture.build().state_dict())).save(file)
    sizes = ["depth=6,embed_dim=128,num_heads=2"]
    family = Family(arch=architecture.spec(), optimizer=partial(AdamW, lr=1e-4), ancestor=str(file), sizes=sizes)
    family.network = family.build_network()
    (size,) = family.listed
    network, images = size.build(), random_images(size, 4)[0]
    of_slice = operations(lambda: family.logits(size, images).mean().backward())
    assert of_slice <= 1.15 * operations(lambda: network(images).mean().backward())


def test_views_and_allocations_are_no_operations():
    x = torch.randn(4, 4)
    assert operations(lambda: torch.empty_like(x).copy_(x.T)) == 1
