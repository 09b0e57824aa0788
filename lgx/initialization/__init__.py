"""Initializers: the interface, the descendants that they initialize, and the index arithmetic of expansions."""

from lgx.initialization.descendants import Initialization, initialize
from lgx.initialization.initializer import Front, Head, Initializer, Origin
from lgx.initialization.sizes import Sizes

__all__ = ["Front", "Head", "Initialization", "Initializer", "Origin", "Sizes", "initialize"]
