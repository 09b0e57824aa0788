"""The version of lgx."""

__version__ = "0.3.0"
