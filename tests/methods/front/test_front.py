"""FRONT: the transform by hand, and the parameters of descendants of other sizes."""

import math

import pytest
import torch
from torch.testing import assert_close

from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.methods import FRONT
from lgx.methods.front.initializer import resized
from tests.support.learngenes import NETWORK, save_source


def cosines(size: int) -> torch.Tensor:
    """The orthonormal DCT-II as a matrix, (frequency, position)."""
    rows = [[math.cos(math.pi * k * (2 * i + 1) / (2 * size)) for i in range(size)] for k in range(size)]
    scale = torch.tensor([math.sqrt((1 if k == 0 else 2) / size) for k in range(size)], dtype=torch.float64)
    return torch.tensor(rows, dtype=torch.float64) * scale[:, None]


def by_hand(tensor: torch.Tensor, size: int) -> torch.Tensor:
    """The first dimension of a matrix with another size, and the same root mean square."""
    spectrum = cosines(len(tensor)) @ tensor.double()
    kept = torch.zeros(size, tensor.shape[1], dtype=torch.float64)
    kept[: len(tensor)] = spectrum[:size]
    made = cosines(size).T @ kept
    return made * tensor.double().square().mean().sqrt() / made.square().mean().sqrt()


@pytest.mark.parametrize("size", [1, 3, 6, 11])
def test_the_spectrum_is_cut_or_padded(size):
    tensor = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    assert_close(resized(tensor, {0: size}).double(), by_hand(tensor, size), atol=1e-6, rtol=0)
    both = by_hand(by_hand(tensor, size).T, 5).T
    assert_close(resized(tensor, {0: size, 1: 5}).double(), both, atol=1e-6, rtol=0)
    assert_close(resized(torch.ones(6), {0: size}), torch.ones(size))
    assert_close(resized(torch.zeros(6), {0: size}), torch.zeros(size))


@pytest.fixture
def source(tmp_path):
    path = save_source(FRONT, tmp_path / "final.learngene.safetensors")
    return FRONT(str(path))


def test_the_sources_size_gives_the_source(source):
    made = source(NETWORK)
    assert made.keys() == source.loaded.tensors.keys()
    assert all(torch.equal(made[name], tensor) for name, tensor in source.loaded.tensors.items())


def test_a_descendant_of_another_size_gets_every_parameter_resized(source):
    target = NETWORK.replace(depth=NETWORK.depth + 3, embed_dim=2 * NETWORK.embed_dim)
    tensors, width = source.loaded.tensors, NETWORK.embed_dim
    start = initialize(target, source, head="new")
    assert set(start.random) == {"head.weight", "head.bias"}
    made = start.model.state_dict()
    positions = tensors["pos_embed"][0]
    assert_close(made["pos_embed"][0].double(), by_hand(positions.T, 2 * width).T, atol=1e-5, rtol=0)
    fused = torch.stack([tensors[f"blocks.{i}.attn.qkv.weight"] for i in range(NETWORK.depth)])
    wanted = resized(fused.reshape(-1, 3, width, width), {0: target.depth, 2: 2 * width, 3: 2 * width})
    assert_close(made["blocks.4.attn.qkv.weight"], wanted[4].reshape(6 * width, 2 * width))


def test_other_heads_at_one_width_are_refused(source):
    with pytest.raises(UserError, match="attention heads"):
        source(NETWORK.replace(num_heads=NETWORK.num_heads * 2))
