"""lgx: condense one large ancestor into a small learngene that initializes descendants of any size.

This module imports nothing heavy, so that ``lgx --help`` answers at once.
"""

__version__ = "0.1.0"
