"""Texts: rows of files and of the hub, tokens, and the bases of all text data modules."""
