"""Mimetic initialization: the products of attention's weights, positions, and a start without a source."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from lgx.architectures import ViTArchitecture
from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.methods import Mimetic
from lgx.methods.mimetic import initializer
from lgx.methods.mimetic.initializer import factors
from tests.support.families import EACH, tiny

NETWORK = ViTArchitecture(2, 48, 3, patch_size=4, img_size=16, num_classes=5)


@given(st.integers(2, 24), st.floats(0, 1), st.floats(-1, 1))
def test_the_product_of_full_rank_is_the_wanted_matrix(width, alpha, beta):
    torch.manual_seed(width)
    left, right = factors(width, width + width % 3, alpha, beta)  # what is above the width is zero
    assert left.shape == right.shape == (width + width % 3, width)
    torch.manual_seed(width)
    wanted = alpha * torch.randn(width, width) / width**0.5 + beta * torch.eye(width)
    assert_close(left.T @ right, wanted, atol=1e-5, rtol=1e-4)


def test_the_product_of_a_head_is_the_best_approximation_of_its_rank():
    torch.manual_seed(0)
    left, right = factors(48, 16, 0.7, 0.7)
    torch.manual_seed(0)
    wanted = 0.7 * torch.randn(48, 48) / 48**0.5 + 0.7 * torch.eye(48)
    lost = torch.linalg.svdvals(wanted)[16:].square().sum().sqrt()
    assert_close((left.T @ right - wanted).norm(), lost, atol=1e-4, rtol=1e-4)
    assert_close(left.norm(dim=1), right.norm(dim=1), atol=1e-4, rtol=1e-4)


def test_queries_match_keys_of_the_same_token_and_values_are_subtracted(monkeypatch):
    monkeypatch.setattr(initializer, "QUERIES", (0.0, 0.7))
    monkeypatch.setattr(initializer, "VALUES", (0.0, -0.4))
    start = initialize(NETWORK, Mimetic())
    for block in start.model.blocks:
        queries, keys, values = block.attn.qkv.weight.detach().chunk(3)
        for head in range(3):
            rows = slice(16 * head, 16 * head + 16)
            product = queries[rows].T @ keys[rows]
            assert_close(torch.linalg.eigvalsh(product)[-16:], torch.full((16,), 0.7))
        assert_close(values.T @ block.attn.proj.weight.detach().T, -0.4 * torch.eye(48))


def test_positions_are_sinusoidal_and_other_parameters_are_random():
    start = initialize(NETWORK, Mimetic())
    positions = start.model.pos_embed.detach()[0]
    assert not positions[0].any()
    assert_close(positions[1:].square().sum(1), torch.full((16,), 24.0))  # 24 sines and cosines of the same angles
    assert_close(positions[1], torch.tensor([0.0, 0.0, 1.0, 1.0]).repeat_interleave(12))  # the corner: sin 0, cos 0
    assert {name.split(".")[-2] for name in start.taken if "blocks" in name} == {"qkv", "proj"}
    assert "blocks.0.mlp.fc1.weight" in start.random


@pytest.mark.parametrize("family", EACH)
def test_networks_of_every_family_start(family, monkeypatch):
    monkeypatch.setattr(initializer, "VALUES", (0.0, -0.4))
    architecture = tiny(family)
    start = initialize(architecture, Mimetic())
    attention, state = "blocks.1.attn.", start.model.state_dict()
    assert start.model.eval()(torch.randn(1, 3, 16, 16)).isfinite().all()
    fused = state.get(f"{attention}qkv.weight")
    values = state[f"{attention}v_proj.weight"] if fused is None else fused.chunk(3)[2]
    assert_close(values.T @ state[f"{attention}proj.weight"].T, -0.4 * torch.eye(32), atol=1e-5, rtol=1e-5)


def test_a_width_without_sinusoids_is_refused():
    with pytest.raises(UserError, match="an embed_dim that is a multiple of 4, got 6"):
        initialize(NETWORK.replace(embed_dim=6), Mimetic())
