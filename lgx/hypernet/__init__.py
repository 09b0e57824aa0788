"""Hypernetworks that predict the parameters of any architecture: GHN-3, LoGAH, and TAL's conditioning."""

from lgx.hypernet.checkpoints import load
from lgx.hypernet.graph import Graph, computational_graph
from lgx.hypernet.hypernet import Hypernet, HypernetConfig

__all__ = ["Graph", "Hypernet", "HypernetConfig", "computational_graph", "load"]
