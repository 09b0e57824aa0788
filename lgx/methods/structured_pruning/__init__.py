"""Structured pruning of an ancestor, by the library torch-pruning."""
