"""Graphs are built from architectures, with paths of limited length."""

import pytest
import torch
from torch import nn

from lgx.architectures import ViTArchitecture
from lgx.errors import UserError
from lgx.hypernet import Hypernet, HypernetConfig, computational_graph, trace

SMALL = {"width": 16, "layers": 1, "heads": 2, "rank": 4, "max_size": 1024}


def test_paths_may_be_as_long_as_the_encoder_has_embeddings_for():
    deep = ViTArchitecture(depth=40, embed_dim=24, num_heads=2, img_size=16, patch_size=4, num_classes=7)
    graph = computational_graph(deep.replace(depth=200), cutoff=254)
    assert graph.distances.max() == 254
    with torch.no_grad():
        hypernet = Hypernet(HypernetConfig(**SMALL, max_shape=(16, 20, 8, 8), num_classes=7))
        assert hypernet.encode([graph]).isfinite().all()
    for cutoff in (0, -1, 255):
        with pytest.raises(UserError, match=f"cutoff: must be between 1 and 254, got {cutoff}"):
            computational_graph(deep, cutoff=cutoff)
        with pytest.raises(UserError, match="cutoff"):
            trace(nn.Conv2d(3, 4, 1), (3, 8, 8), cutoff=cutoff)


def test_a_name_is_not_accepted_as_an_architecture():
    with pytest.raises(UserError, match="got '12-Base'"):
        computational_graph("12-Base")
