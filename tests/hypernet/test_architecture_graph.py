"""Graphs are built from architectures."""

import pytest
import torch

from lgx.architectures import ViTArchitecture
from lgx.errors import UserError
from lgx.hypernet import Hypernet, HypernetConfig, computational_graph

SMALL = {"width": 16, "layers": 1, "heads": 2, "rank": 4, "max_size": 1024}


def test_longer_paths_than_those_of_ghn3_count_as_missing():
    deep = ViTArchitecture(depth=40, embed_dim=24, num_heads=2, img_size=16, patch_size=4, num_classes=7)
    graph = computational_graph(deep.replace(depth=200))
    assert graph.distances.max() == 50
    with torch.no_grad():
        hypernet = Hypernet(HypernetConfig(**SMALL, max_shape=(16, 20, 8, 8), num_classes=7))
        assert hypernet.encode([graph]).isfinite().all()


def test_a_name_is_not_accepted_as_an_architecture():
    with pytest.raises(UserError, match="got '12-Base'"):
        computational_graph("12-Base")
