"""Hypernetworks that predict the parameters of any architecture: GHN-3, LoGAH, and TAL's conditioning."""

from lgx.hypernet.checkpoints import load
from lgx.hypernet.graph import Graph, computational_graph
from lgx.hypernet.hypernet import Hypernet, HypernetConfig
from lgx.hypernet.tiling import tiled_parameters
from lgx.hypernet.trace import trace

__all__ = ["Graph", "Hypernet", "HypernetConfig", "computational_graph", "load", "tiled_parameters", "trace"]
