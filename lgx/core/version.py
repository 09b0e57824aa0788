"""The version of lgx."""

__version__ = "0.1.0"
