"""Learngenes of layers also start narrower descendants: width is selected, then the layers are expanded."""

import pytest
import torch

from lgx.artifacts.learngene import SUFFIX
from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.initialization.width import heads_whole, narrow
from lgx.methods import registry
from lgx.methods.layers import LayerExpansion
from tests.support.learngenes import NETWORK, learners_of, save_source, start_from

LAYERED = {
    name: kind
    for name, kind in registry.initializer_classes().items()
    if issubclass(kind, LayerExpansion) and kind.named is LayerExpansion.named
}
"""Others make narrower networks in ways of their own."""
PAIRS = [(name, method) for name, kind in LAYERED.items() for method in learners_of(kind)]
NARROW = NETWORK.replace(embed_dim=8, num_heads=1, mlp_ratio=1.5)


@pytest.fixture(params=PAIRS, ids="-".join)
def initializer(request, tmp_path):
    name, method = request.param
    return start_from(LAYERED[name], save_source(LAYERED[name], tmp_path / f"final{SUFFIX}", method))


@pytest.mark.parametrize("depth", [4, 7])
def test_a_narrower_descendant_is_the_narrower_part_of_the_wide_one(initializer, depth):
    wide, small = NETWORK.replace(depth=depth), NARROW.replace(depth=depth)
    expected = narrow(initialize(wide, initializer).model.state_dict(), wide, small, heads_whole)
    start = initialize(small, initializer)
    assert not start.random
    assert all(torch.equal(tensor, expected[name]) for name, tensor in start.model.state_dict().items())
    assert start.model(torch.randn(1, 3, 16, 16)).isfinite().all()


def test_results_name_the_selected_width(initializer):
    assert initializer.named(NARROW) == f"{initializer.method}_narrowed"
    assert initializer.named(NETWORK.replace(depth=5)) == initializer.method
    (note,) = initialize(NARROW, initializer).notes
    assert "embed_dim 8, num_heads 1, mlp_ratio 1.5 of embed_dim 16, num_heads 2, mlp_ratio 4" in note


@pytest.mark.parametrize("wider", [{"embed_dim": 32}, {"num_heads": 4}, {"num_heads": 1}, {"mlp_ratio": 5.0}])
def test_a_wider_descendant_is_refused(initializer, wider):
    with pytest.raises(UserError, match=r"must not (be wider|have more heads)"):
        initialize(NETWORK.replace(**wider), initializer)
