"""The version of lgx."""

__version__ = "0.2.0"
