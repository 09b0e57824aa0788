"""Layers of an ancestor that the user names: the control of every selection of layers."""
