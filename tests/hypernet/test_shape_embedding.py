"""The smooth embedding of shapes: sizes between trained ones lie between them; old files keep the table."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lgx.errors import UserError
from lgx.hypernet import Hypernet, HypernetConfig
from lgx.hypernet.checkpoints import read_config
from lgx.hypernet.shape_embedding import FourierShapeEmbedding, ShapeEmbedding

SMALL = {"width": 16, "layers": 1, "heads": 2, "max_shape": (64, 64, 4, 4), "rank": 4, "max_size": 256}


def embed(embedding, *shape):
    return embedding(torch.tensor(shape)).detach()


@given(st.integers(8, 4000))
def test_near_sizes_have_near_embeddings_and_a_size_between_two_is_near_to_both(size):
    torch.manual_seed(0)
    embedding = FourierShapeEmbedding(64)
    own, next_to, far = (embed(embedding, s, 64, 1, 1) for s in (size, size + 1, 2 * size))
    assert (own - next_to).norm() < 0.35 * (own - far).norm()
    low, middle, high = (embed(embedding, s, s, 1, 1) for s in (64, 80, 96))
    assert max((low - middle).norm(), (middle - high).norm()) < (low - high).norm()


def test_training_two_widths_moves_the_one_between_them():
    for kind, moves in ((lambda: FourierShapeEmbedding(16), True), (lambda: ShapeEmbedding(16, 10, 8), False)):
        torch.manual_seed(0)
        embedding = kind()
        shapes = {s: torch.tensor([s, s, 0, 0]) for s in (64, 80, 96)}
        before = embedding(shapes[80]).detach()
        (embedding(shapes[64]) + embedding(shapes[96])).sum().backward()
        with torch.no_grad():
            for parameter in embedding.parameters():
                parameter -= 0.1 * parameter.grad
        moved = embedding(shapes[80])[:8] - before[:8]
        assert bool(moved.abs().max() > 1e-4) == moves


def test_nodes_without_a_parameter_have_a_vector_of_their_own():
    embedding = FourierShapeEmbedding(16)
    none, one = embed(embedding, 0, 0, 0, 0), embed(embedding, 1, 1, 1, 1)
    assert not torch.allclose(none, one)
    assert torch.equal(none[:8], embed(embedding, 0, 0, 5, 5)[:8])


def test_a_configuration_chooses_the_embedding_and_older_ones_have_the_table():
    chosen = HypernetConfig(**SMALL, size_embedding="fourier")
    assert isinstance(Hypernet(chosen).encoder.shapes, FourierShapeEmbedding)
    assert read_config(chosen.to_dict(), "x") == chosen
    old = {key: value for key, value in HypernetConfig(**SMALL).to_dict().items() if key != "size_embedding"}
    assert isinstance(Hypernet(read_config(old, "x")).encoder.shapes, ShapeEmbedding)
    with pytest.raises(UserError, match="size_embedding is 'nearest', expected table or fourier"):
        HypernetConfig(size_embedding="nearest")
