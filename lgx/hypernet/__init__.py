"""Hypernetworks that predict the parameters of architectures: GHN-3, LoGAH, and TAL's task conditioning."""

from lgx.hypernet.checkpoints import load
from lgx.hypernet.config import HypernetConfig
from lgx.hypernet.graph import Graph, computational_graph
from lgx.hypernet.hypernet import Hypernet
from lgx.hypernet.tracing import trace

__all__ = ["Graph", "Hypernet", "HypernetConfig", "computational_graph", "load", "trace"]
