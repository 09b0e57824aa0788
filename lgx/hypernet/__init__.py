"""Hypernetworks that predict the parameters of architectures: GHN-3, LoGAH, and TAL's task conditioning."""

from lgx.hypernet.checkpoints import load, read_config
from lgx.hypernet.encoder import ShapeEmbedding
from lgx.hypernet.functional_forward import Projection, functional_forward, meta_batch_loss, skeleton
from lgx.hypernet.graph import Graph, computational_graph
from lgx.hypernet.hypernet import Hypernet, HypernetConfig
from lgx.hypernet.low_rank_decoder import Layout
from lgx.hypernet.low_rank_tensor import LowRankTensor

__all__ = [
    "Graph", "Hypernet", "HypernetConfig", "Layout", "LowRankTensor", "Projection", "ShapeEmbedding",
    "computational_graph", "functional_forward", "load", "meta_batch_loss", "read_config", "skeleton",
]  # fmt: skip
