"""Texts: rows of files and of the hub, tokenizers of transformers, and the bases of all text data modules."""
