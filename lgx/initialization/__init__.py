"""Initializers: the interface, the descendants that they initialize, and the index arithmetic of expansions."""

from lgx.initialization.descendants import Initialization, initialize
from lgx.initialization.initializer import Head, Initializer, Origin
from lgx.initialization.sizes import Sizes
from lgx.initialization.zoo import initialize_zoo

__all__ = ["Head", "Initialization", "Initializer", "Origin", "Sizes", "initialize", "initialize_zoo"]
