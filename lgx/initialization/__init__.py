"""Initializers: every way to give a descendant its start, behind one protocol."""

from lgx.initialization.base import Head, Initialization, Initializer, initialize
from lgx.initialization.origin import Origin
from lgx.initialization.zoo import initialize_zoo

__all__ = ["Head", "Initialization", "Initializer", "Origin", "initialize", "initialize_zoo"]
