"""Hypernetworks: GHN-3, LoGAH, TAL."""
