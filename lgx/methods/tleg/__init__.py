"""TLEG: linear expansion of two layers."""
