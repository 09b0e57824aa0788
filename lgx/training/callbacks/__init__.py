"""Callbacks of every run of lgx."""
